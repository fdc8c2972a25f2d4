"""CartPole-v1 with PPO: the position of the cart with and without the centring shaper, at equal score.

python scripts/results/cartpole_centring.py --seeds 3

Both sides use the hyperparameters in `hyperparams/ppo_ext.yml`. The final agent plays deterministic episodes without
shaping. Prints its raw score and the mean distance |x| of the cart from the centre over all steps (an episode ends at
2.4).
"""

from __future__ import annotations

import argparse
import itertools
import sys
from typing import Any

import numpy as np
import rl_zoo3.train  # noqa: F401  lets plugins put their algorithms and ExperimentManager in place
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.env_util import make_vec_env

from sb3_ext.zoo.models import make_model

ENV_ID = "CartPole-v1"
_SHAPER = "sb3_ext.wrappers.shaping.known_envs.CartPoleShaping"


def play(model: BaseAlgorithm, n_episodes: int) -> tuple[float, float]:
    """
    :return: mean raw score, and mean |x|
    """
    env = make_vec_env(ENV_ID, n_episodes, seed=1000)
    observations = env.reset()
    scores = np.zeros(n_episodes)
    running = np.ones(n_episodes, bool)
    distances: list[float] = []
    while running.any():
        actions, _ = model.predict(observations, deterministic=True)
        observations, rewards, dones, _ = env.step(actions)
        scores += rewards * running
        running &= ~dones
        distances.extend(np.abs(observations[running, 0]))
    return float(scores.mean()), float(np.mean(distances))


def run(weight: float, seed: int, n_timesteps: int, n_episodes: int) -> tuple[float, float]:
    shaping: dict[str, Any] = {"env_wrapper": [{_SHAPER: {"terms": {"centring": weight}}}]} if weight else {}
    with make_model("ppo_ext", ENV_ID, {**shaping, "ext": {"vec_env": "dummy"}}, seed=seed) as model:
        model.learn(n_timesteps)
        return play(model, n_episodes)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--weight", type=float, default=0.5, help="weight of the `centring` term")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--n-timesteps", type=int, default=100_000)
    parser.add_argument("--eval-episodes", type=int, default=50)
    args = parser.parse_args()
    th.set_num_threads(1)
    sides = {"none": 0.0, f"centring: {args.weight:g}": args.weight}
    results: dict[str, list[tuple[float, float]]] = {side: [] for side in sides}
    for seed, side in itertools.product(range(1, args.seeds + 1), sides):
        score, distance = run(sides[side], seed, args.n_timesteps, args.eval_episodes)
        results[side].append((score, distance))
        print(f"{side}, seed {seed}: score {score:.1f}, mean |x| {distance:.3f}", file=sys.stderr, flush=True)
    print("| shaping | score, mean of seeds | mean \\|x\\|, each seed | mean |\n|---|---|---|---|")
    for side, runs in results.items():
        scores, distances = np.array(runs).T
        each = ", ".join(f"{distance:.3f}" for distance in distances)
        print(f"| {side} | {scores.mean():.1f} | {each} | {distances.mean():.3f} |")


if __name__ == "__main__":
    main()
