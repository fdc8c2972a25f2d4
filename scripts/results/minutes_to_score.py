"""How long a training takes to a score: trains with RL Zoo's command, then plays its checkpoints in their order.

python scripts/results/minutes_to_score.py --env Pong-v5 --score 18 --seeds 1 2 3 -f logs/minutes

Minutes count from the command to the checkpoint's file. Checkpoints are played until one reaches the score, and the
final model in any case. Leave the machine idle while it trains.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
from evaluation import open_run
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv

#: Where the episodes of evaluations start from
_SEED = 1000
#: All checkpoints, without tables and videos
_KEEP = "ext:dict(checkpoints=dict(keep=None,table=False,video=False))"


def train(args: argparse.Namespace, seed: int) -> tuple[int, float, float]:
    """:return: the run's number, when its command started, and its minutes"""
    command = [sys.executable, "-m", "rl_zoo3.train", "--algo", args.algo, "--env", args.env, "--seed", str(seed)]
    command += [
        "-f",
        args.folder,
        "--eval-freq",
        "-1",
        "--save-freq",
        str(args.every),
        "-params",
        _KEEP,
        *args.arguments.split(),
    ]
    start = time.time()
    subprocess.run(command, check=True)
    minutes = (time.time() - start) / 60
    numbers = [int(path.name.rsplit("_", 1)[1]) for path in Path(args.folder, args.algo).glob(f"{args.env}_*")]
    return max(numbers), start, minutes


def play(model: BaseAlgorithm, env: VecEnv, args: argparse.Namespace) -> float:
    env.seed(_SEED)
    set_random_seed(_SEED)
    rewards, _ = evaluate_policy(model, env, args.episodes, deterministic=args.deterministic)
    return float(np.mean(rewards))


def checkpoints(folder: Path) -> list[tuple[int, Path]]:
    """With their steps, oldest first."""
    found = [(re.fullmatch(r"rl_model_(\d+)_steps\.zip", path.name), path) for path in folder.iterdir()]
    return sorted((int(match[1]), path) for match, path in found if match)


def line(args: argparse.Namespace, seed: int) -> str:
    """The table's line for a seed."""
    run_id, start, minutes = train(args, seed)
    model, env = open_run(args.algo, args.env, args.folder, run_id=run_id, n_envs=args.episodes, seed=_SEED)
    reached = "never"
    for steps, path in checkpoints(Path(args.folder, args.algo, f"{args.env}_{run_id}")):
        if steps < args.first:
            continue
        score = play(type(model).load(path), env, args)
        print(f"seed {seed}, {steps:,} steps: {score:.2f}", file=sys.stderr, flush=True)
        if score >= args.score:
            reached = f"{(path.stat().st_mtime - start) / 60:.1f} min ({steps:,} steps)"
            break
    final = play(model, env, args)
    env.close()
    return f"| {seed} | {reached} | {final:.2f} | {model.num_timesteps:,} | {minutes:.1f} min |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", default="ppo_ext")
    parser.add_argument("--env", default="Pong-v5")
    parser.add_argument("--score", type=float, default=18.0, help="mean of the raw scores to reach")
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--episodes", type=int, default=20, help="of each evaluation")
    parser.add_argument("--deterministic", action=argparse.BooleanOptionalAction, default=True)
    parser.add_argument("--every", type=int, default=100_000, help="steps between two checkpoints")
    parser.add_argument("--first", type=int, default=0, help="steps of the first checkpoint that is played")
    parser.add_argument("-f", "--folder", default="logs/minutes", help="log folder")
    parser.add_argument("--arguments", default="", help="more arguments of the training, such as '-conf own.yml'")
    args = parser.parse_args()
    print(f"| seed | to a score of {args.score:g} | final score | steps | whole training |\n|---|---|---|---|---|")
    for seed in args.seeds:
        print(line(args, seed), flush=True)


if __name__ == "__main__":
    main()
