"""Measures the time per step of an evaluation: SB3's ``evaluate_policy`` and ours, with the same agent, in turns.

python scripts/benchmarks/play_speed.py
python scripts/benchmarks/play_speed.py --env LunarLander-v3 --steps 50000 --rounds 5
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch as th
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy

from sb3_ext.runs.play.scoring import play
from sb3_ext.zoo.models import make_model


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--steps", type=int, default=30_000, help="timesteps to train the agent for")
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=9)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    th.set_num_threads(1)
    env = make_vec_env(args.env, 1, seed=1)
    stock, ours = [], []
    with make_model("ppo_ext", args.env, {"fast": "alone"}, seed=1) as model:
        model.learn(args.steps)
        for _ in range(args.rounds):
            start = time.perf_counter()
            _, lengths = evaluate_policy(model, env, args.episodes, return_episode_rewards=True)
            stock.append((time.perf_counter() - start) / sum(lengths))
            scores = play(model, env, episodes=args.episodes)
            ours.append(scores.seconds / sum(scores.lengths))
    env.close()
    ratios = sorted(theirs / mine for theirs, mine in zip(stock, ours, strict=True))
    print(
        f"{args.env}: {1e6 * statistics.median(stock):.0f} µs a step with SB3's evaluate_policy, "
        f"{1e6 * statistics.median(ours):.0f} with play; {statistics.median(ratios):.2f} times as fast "
        f"({ratios[0]:.2f} to {ratios[-1]:.2f} in {args.rounds} rounds)"
    )


if __name__ == "__main__":
    main()
