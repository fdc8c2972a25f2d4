"""Trains two algorithms with five seeds each in two environments, and draws docs/images/plot.svg with `sb3-ext plot`.

python scripts/docs/plot_picture.py --output docs/images/plot.svg        # about five minutes on 2 cores
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

from sb3_ext.cli import main

STEPS = {"CartPole-v1": 40_000, "Acrobot-v1": 40_000}


def train(folder: str, seeds: int) -> None:
    for env_id, steps in STEPS.items():
        for algo in ("ppo_ext", "a2c_ext"):
            for seed in range(1, seeds + 1):
                words = f"--algo {algo} --env {env_id} -n {steps} --seed {seed} --eval-freq 2000 --num-threads 1"
                main(["train", *words.split(), "--verbose", "0", "-f", folder, "-params", "ext:dict(report=False)"])


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--output", default="docs/images/plot.svg")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--logs", help="log folder; if it exists, its runs are drawn (default: a temporary one)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        logs = Path(args.logs or temporary)
        if not any(logs.glob("*/*")):
            train(str(logs), args.seeds)
        main(["plot", *map(str, sorted(logs.glob("*/*_*"))), "-o", args.output])
