"""MountainCar-v0 with PPO: steps to a raw score of -110 with shaped rewards, with stacked frames, and with neither.

python scripts/results/mountain_car.py --seeds 3 --plot docs/images/mountain_car.png

All runs use the hyperparameters in `hyperparams/ppo_ext.yml`. Every `--eval-freq` steps the agent plays 20
deterministic episodes from the same 20 starts. A run ends after two evaluations in a row with a mean raw score of -110
or better; its result is the step of the first of them.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from typing import Any

import numpy as np
import rl_zoo3.train  # noqa: F401  lets plugins put their algorithms and ExperimentManager in place
import torch as th
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import VecEnv, VecFrameStack, VecNormalize, sync_envs_normalization

from sb3_ext.wrappers.training_link import link_to_training
from sb3_ext.zoo.models import make_model

ENV_ID = "MountainCar-v0"
TARGET = -110.0
N_EPISODES = 20
_SHAPING = "sb3_ext.wrappers.shaping.known_envs"
#: What each variant adds to the section of the hyperparameter file
VARIANTS: dict[str, dict[str, Any]] = {
    "height": {"env_wrapper": [{f"{_SHAPING}.MountainCarShaping": {"terms": {"height": 1.0}}}]},
    "potential": {"env_wrapper": [{f"{_SHAPING}.MountainCarPotential": {}}]},
    "count": {"env_wrapper": [{"sb3_ext.wrappers.shaping.count_bonus.CountBonus": {"bins": 20, "shared": True}}]},
    "frames": {"frame_stack": 4},
    "none": {},
}


class RawScore(BaseCallback):
    """
    Plays evaluation episodes, and ends the training when they are good enough.

    :param every: after how many steps
    """

    def __init__(self, every: int) -> None:
        super().__init__()
        self._every = every
        self.curve: list[tuple[int, float]] = []

    def _on_training_start(self) -> None:
        training_env = self.model.env
        assert training_env is not None
        self._eval_env = _like(training_env)

    def _on_step(self) -> bool:
        if self.num_timesteps < self._every * (len(self.curve) + 1):
            return True
        training_env = self.model.env
        assert training_env is not None
        sync_envs_normalization(training_env, self._eval_env)
        self._eval_env.seed(0)
        # Raw: there is no shaping here, and Monitor would be below it
        score, _ = evaluate_policy(self.model, self._eval_env, N_EPISODES)
        self.curve.append((self.num_timesteps, float(score)))
        return solved_at(self.curve) is None


def solved_at(curve: list[tuple[int, float]]) -> int | None:
    """
    :param curve: evaluations: step and score
    :return: the step of the first of the last two, when both are good enough
    """
    last_two = curve[-2:]
    return last_two[0][0] if len(last_two) == 2 and all(score >= TARGET for _, score in last_two) else None


def _like(training_env: VecEnv) -> VecEnv:
    """An environment for evaluation whose observations are normalised and stacked as those of training are."""
    layers = []
    while hasattr(training_env, "venv"):
        layers.append(training_env)
        training_env = training_env.venv
    env = make_vec_env(ENV_ID, N_EPISODES)
    for layer in reversed(layers):
        if isinstance(layer, VecNormalize):
            env = VecNormalize(env, training=False, norm_reward=False, norm_obs=layer.norm_obs)
        elif isinstance(layer, VecFrameStack):
            env = VecFrameStack(env, layer.stacked_obs.n_stack)
    return env


def run(variant: str, seed: int, max_steps: int, eval_freq: int) -> list[tuple[int, float]]:
    """
    :return: the evaluations of a training: step and score
    """
    scores = RawScore(eval_freq)
    hyperparams = {**VARIANTS[variant], "ext": {"vec_env": "dummy"}}
    with make_model("ppo_ext", ENV_ID, hyperparams, seed=seed) as model:
        assert model.env is not None
        link_to_training(model.env, model.gamma)
        model.learn(max_steps, callback=scores)
    return scores.curve


def table(curves: dict[str, list[list[tuple[int, float]]]], max_steps: int) -> str:
    """A Markdown table with a row for each variant."""
    lines = ["| variant | steps to -110, each seed | median | best score, each seed |", "|---|---|---|---|"]
    for variant, runs in curves.items():
        steps = [float(solved_at(curve) or np.inf) for curve in runs]
        cells = [variant, ", ".join(_written(step, max_steps) for step in steps)]
        cells += [_written(float(np.median(steps)), max_steps)]
        cells += [", ".join(f"{max(score for _, score in curve):.1f}" for curve in runs)]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def _written(steps: float, max_steps: int) -> str:
    return f"{steps:,.0f}" if np.isfinite(steps) else f"> {max_steps:,}"


def plot(curves: dict[str, list[list[tuple[int, float]]]], path: str) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    _, axes = plt.subplots(figsize=(7, 4))
    for color, (variant, runs) in zip(plt.rcParams["axes.prop_cycle"].by_key()["color"], curves.items(), strict=False):
        for number, curve in enumerate(runs):
            steps, scores = np.array(curve).T
            axes.plot(steps, scores, color=color, alpha=0.8, label=None if number else variant)
            if solved_at(curve) is not None:
                axes.plot(steps[-2], scores[-2], "o", color=color)
    axes.axhline(TARGET, color="grey", linestyle=":")
    axes.set(xlabel="steps", ylabel="raw score", title=f"{ENV_ID}, a line for each seed, a dot where it gets to -110")
    axes.legend()
    plt.tight_layout()
    plt.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variants", nargs="+", default=list(VARIANTS), choices=list(VARIANTS))
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--max-steps", type=int, default=500_000)
    parser.add_argument("--eval-freq", type=int, default=10_000)
    parser.add_argument("--plot", help="file for the picture")
    args = parser.parse_args()
    th.set_num_threads(1)
    curves: dict[str, list[list[tuple[int, float]]]] = {variant: [] for variant in args.variants}
    for seed, variant in itertools.product(range(1, args.seeds + 1), args.variants):
        start = time.time()
        curves[variant].append(run(variant, seed, args.max_steps, args.eval_freq))
        steps, score = curves[variant][-1][-1]
        said = f"{variant}, seed {seed}: {score:.1f} after {steps:,} steps, {time.time() - start:.0f} s"
        print(said, file=sys.stderr, flush=True)
    print(table(curves, args.max_steps))
    if args.plot:
        plot(curves, args.plot)


if __name__ == "__main__":
    main()
