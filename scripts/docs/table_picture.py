"""Draws the live table of a short training as the terminal shows it: docs/images/live_table.svg.

python scripts/docs/table_picture.py --output docs/images/live_table.svg
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path

import torch as th
from rich.console import Console
from stable_baselines3.common.callbacks import BaseCallback

from sb3_ext import PPOExt
from sb3_ext.callbacks import Alerts, Metrics, Table
from sb3_ext.callbacks.table.callback import LiveTable


class Picture(BaseCallback):
    """
    :param at: timesteps after which to draw
    :param path: where to
    """

    def __init__(self, at: int, path: str) -> None:
        super().__init__()
        self._at = at
        self._path = Path(path)

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        if self.num_timesteps < self._at or self._path.exists():
            return
        (table,) = (shown for shown in self.logger.output_formats if isinstance(shown, LiveTable))
        console = Console(record=True, width=128, height=44, file=io.StringIO(), force_terminal=True)
        console.print(table._everything())
        self._path.write_text(console.export_svg(title="PPOExt, CartPole-v1"), encoding="utf-8")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="docs/images/live_table.svg")
    parser.add_argument("--learning-rate", type=float, default=0.01)
    args = parser.parse_args()
    th.set_num_threads(1)
    Path(args.output).unlink(missing_ok=True)
    model = PPOExt("MlpPolicy", "CartPole-v1", n_steps=256, verbose=1, seed=1, learning_rate=args.learning_rate)
    callbacks = [Metrics(), Alerts(verbose=0), Table(live=True), Picture(12_000, args.output)]
    model.learn(20_000, callback=callbacks)


if __name__ == "__main__":
    main()
