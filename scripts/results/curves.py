"""Learning curves of PPOExt's fast path and of SB3's PPO: same environments and hyperparameters, several seeds.

python scripts/results/curves.py --env CartPole-v1 --seeds 5 --plot docs/images/fast_curves.png

Prints the mean episode reward in parts of the training, and the p-value of the difference: a permutation test on the
means over the whole training.
"""

from __future__ import annotations

import argparse
import itertools
import sys
from functools import partial

import gymnasium as gym
import numpy as np
import rl_zoo3.train  # noqa: F401  lets plugins put their algorithms and ExperimentManager in place
import torch as th
from scipy.stats import permutation_test

from sb3_ext.zoo.models import make_model

SIDES = {"SB3's PPO": ("ppo", {}), "PPOExt": ("ppo_ext", {"ext": {"vec_env": "dummy"}})}


def curve(side: str, env_id: str, seed: int, n_steps: int, n_parts: int) -> np.ndarray:
    """Mean reward of the episodes that ended in each part of a training."""
    algo, hyperparams = SIDES[side]
    rewards: list[tuple[int, float]] = []

    def note(locals_: dict, globals_: dict) -> bool:
        model = locals_["self"]
        rewards.extend((model.num_timesteps, info["episode"]["r"]) for info in locals_["infos"] if "episode" in info)
        return True

    with make_model(algo, env_id, hyperparams, seed=seed) as model:
        model.learn(n_steps, callback=note)
    steps, scores = np.array(rewards).T
    parts = np.minimum((steps - 1) * n_parts // n_steps, n_parts - 1)
    return np.array([scores[parts == part].mean() if (parts == part).any() else np.nan for part in range(n_parts)])


def p_value(first: np.ndarray, second: np.ndarray) -> float:
    """Share of the ways to deal out the runs that differ at least as much as this one; of many, a sample."""

    def difference(one: np.ndarray, other: np.ndarray) -> float:
        return float(one.mean() - other.mean())

    return float(permutation_test((first, second), difference, n_resamples=99_999, rng=0).pvalue)


def plot(curves: dict[str, np.ndarray], env_id: str, n_steps: int, path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    _, axes = plt.subplots(figsize=(7, 4))
    for side, runs in curves.items():
        x = (np.arange(runs.shape[1]) + 0.5) * n_steps / runs.shape[1]
        (line,) = axes.plot(x, runs.mean(0), label=f"{side}, mean of {len(runs)} seeds")
        axes.fill_between(x, runs.min(0), runs.max(0), alpha=0.2, color=line.get_color())
    axes.set(xlabel="steps", ylabel="episode reward", title=f"{env_id}, range and mean of the seeds")
    axes.legend()
    plt.tight_layout()
    plt.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--env", default="CartPole-v1", choices=list(gym.registry), metavar="ENV")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--n-timesteps", type=int, default=100_000)
    parser.add_argument("--parts", type=int, default=10)
    parser.add_argument("--plot", help="file for the picture")
    args = parser.parse_args()
    th.set_num_threads(1)
    curves: dict[str, list[np.ndarray]] = {side: [] for side in SIDES}
    for seed, side in itertools.product(range(1, args.seeds + 1), SIDES):
        curves[side].append(curve(side, args.env, seed, args.n_timesteps, args.parts))
        print(f"{side}, seed {seed}: {curves[side][-1].round(1)}", file=sys.stderr, flush=True)
    stacked = {side: np.stack(runs) for side, runs in curves.items()}
    percent = partial("{:.0%}".format)
    print(f"| {args.env}, part of training ending at | {' | '.join(stacked)} |\n|---|{'---|' * len(stacked)}")
    for part in range(args.parts):
        cells = [f"{runs[:, part].mean():.1f} ± {runs[:, part].std():.1f}" for runs in stacked.values()]
        print(f"| {percent((part + 1) / args.parts)} | {' | '.join(cells)} |")
    first, second = (np.nanmean(runs, axis=1) for runs in stacked.values())
    print(f"\nwhole training: {first.mean():.1f} and {second.mean():.1f}, p = {p_value(first, second):.2f}")
    if args.plot:
        plot(stacked, args.env, args.n_timesteps, args.plot)


if __name__ == "__main__":
    main()
