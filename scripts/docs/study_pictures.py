"""Runs a study from a bad start and draws its live table, a plot and optuna-dashboard: docs/images/tune*.

python scripts/docs/study_pictures.py --logs /tmp/study_pictures --output docs/images

The dashboard needs Chromium. A second run with the same --logs draws again what was searched.
"""

from __future__ import annotations

import argparse
import io
import subprocess
import sys
import time
from pathlib import Path

from PIL import Image
from rich.console import Console

from sb3_ext.cli import main as sb3_ext
from sb3_ext.tune import command
from sb3_ext.tune.live import LiveTable
from sb3_ext.tune.view import StudyView

STUDY = "bad-start"
SECTION = """CartPole-v1:
  n_envs: 8
  n_timesteps: 20000
  policy: MlpPolicy
  n_steps: 32
  batch_size: 256
  gae_lambda: 0.8
  gamma: 0.98
  n_epochs: 20
  learning_rate: 0.03
  clip_range: 0.9
"""
PORT = 8973


class Picture(LiveTable):
    """
    :attr path: where to draw
    :attr at: trials after which to draw
    """

    path: Path
    at: int

    def update(self, view: StudyView) -> None:
        super().update(view)
        n_ended = sum(view.counts.get(state, 0) for state in ("complete", "pruned"))
        if n_ended < self.at or len(view.running) < 2 or not all(row.step for row in view.running):
            return
        Picture.at = sys.maxsize
        console = Console(record=True, width=110, height=40, file=io.StringIO(), force_terminal=True)
        before, self._console = self._console, console
        console.print(self._everything())
        self._console = before
        self.path.write_text(console.export_svg(title=f"sb3-ext tune CartPole-v1 --study {STUDY}"), encoding="utf-8")


def compress(source: Path, target: Path) -> None:
    """To 256 colours."""
    with Image.open(source) as picture:
        picture.convert("RGB").quantize(256).save(target, optimize=True)


def photograph(storage: Path, target: Path) -> None:
    """optuna-dashboard, in a browser."""
    page, raw = f"http://127.0.0.1:{PORT}/dashboard/studies/0", target.with_suffix(".raw.png")
    server = subprocess.Popen(["optuna-dashboard", str(storage), "--port", str(PORT)])
    try:
        time.sleep(10)
        browser = ["chromium", "--headless", "--no-sandbox", f"--screenshot={raw}", "--window-size=1300,1300"]
        subprocess.run([*browser, "--virtual-time-budget=15000", page], check=True, capture_output=True)
        compress(raw, target)
    finally:
        server.terminate()
        raw.unlink(missing_ok=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--logs", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path("docs/images"))
    parser.add_argument("--trials", type=int, default=40)
    args = parser.parse_args()
    args.logs.mkdir(parents=True, exist_ok=True)
    section = args.logs / "bad_start.yml"
    section.write_text(SECTION, encoding="utf-8")
    Picture.path, Picture.at = args.output / "tune.svg", args.trials * 2 // 3
    command.LiveTable = Picture  # type: ignore[misc]
    flags = ["--timesteps", "8000", "--seeds", "2", "--no-rl-zoo", "--pruner", "median", "-f", str(args.logs)]
    words = ["tune", "CartPole-v1", "-conf", str(section), "--study", STUDY, "--trials", str(args.trials), *flags]
    sys.argv = ["sb3-ext", *words]
    sb3_ext(words)
    folder = args.logs / "tune" / STUDY
    compress(folder / "parallel.png", args.output / "tune_parallel.png")
    photograph(folder / "study.log", args.output / "optuna_dashboard.png")


if __name__ == "__main__":
    main()
