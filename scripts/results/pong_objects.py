"""Pong from objects, with sticky actions: three trainings, each continuing the previous one, to a score of 18.

python scripts/results/pong_objects.py --seed 1 -f logs/pong_objects

The first uses the hyperparameters in hyperparams/ppo_ext.yml, with a bonus of 0.1 for returning the ball. The second
collects twice as many steps per update, the third four times as many, with the game's rewards only. At the end the
agent plays 25 deterministic episodes.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import yaml

from sb3_ext.hyperparams import hyperparams_file

ENV = "Pong-v5_objects"
#: What each training changes in the section of the hyperparameter file
PHASES: tuple[dict[str, Any], ...] = (
    {},
    {
        "n_timesteps": 1_500_000,
        "n_steps": 256,
        "batch_size": 512,
        "ent_coef": "lin_0.005",
        "learning_rate": "lin_0.0005",
    },
    {
        "n_timesteps": 1_000_000,
        "n_steps": 512,
        "batch_size": 1024,
        "ent_coef": "lin_0.005",
        "learning_rate": "lin_0.0006",
        "env_wrapper": None,
    },
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-f", "--folder", default="logs/pong_objects", help="where the runs go")
    parser.add_argument("--episodes", type=int, default=25, help="episodes to play at the end")
    args = parser.parse_args()
    section = yaml.safe_load(hyperparams_file("ppo_ext").read_text(encoding="utf-8"))[ENV]
    agent: list[str] = []
    for number, changes in enumerate(PHASES, start=1):
        folder = Path(args.folder, f"phase-{number}")
        with tempfile.TemporaryDirectory() as temporary:
            conf = Path(temporary, "pong.yml")
            conf.write_text(yaml.safe_dump({ENV: {**section, **changes}}), encoding="utf-8")
            command = [sys.executable, "-m", "rl_zoo3.train", "--algo", "ppo_ext", "--env", ENV, "--eval-freq", "-1"]
            command += ["--conf-file", str(conf), "--seed", str(args.seed + number - 1), "-f", str(folder), *agent]
            subprocess.run(command, check=True)
        (model,) = folder.glob(f"ppo_ext/{ENV}_1/{ENV}.zip")
        agent = ["-i", str(model)]
    score = [sys.executable, str(Path(__file__).with_name("score.py")), "--algo", "ppo_ext", "--env", ENV]
    subprocess.run([*score, "-f", str(folder), "-n", str(args.episodes)], check=True)


if __name__ == "__main__":
    main()
