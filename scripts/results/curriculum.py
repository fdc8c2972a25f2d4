"""LunarLander-v3 in a storm: trained in it from the start, with rising winds, and in all winds at once.

    python scripts/results/curriculum.py --seeds 5 --jobs 2

PPOExt with the hyperparameters in hyperparams/ppo_ext.yml. All variants train for the same number of steps and are
evaluated in the storm, on the same episodes, several times during training.
"""

from __future__ import annotations

import argparse
import multiprocessing
import time
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import gymnasium as gym
import numpy as np
import torch as th
import yaml
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sb3_ext import PPOExt
from sb3_ext.callbacks.curriculum import Curriculum
from sb3_ext.common.model_file import callback_state
from sb3_ext.hyperparams import hyperparams_file
from sb3_ext.vec_env.mixed import member_fns, members_of_envs, read_members
from sb3_ext.wrappers.curriculum.options import CurriculumOptions, read_curriculum

ENV = "LunarLander-v3"
WINDS = (0.0, 5.0, 10.0, 15.0, 20.0)
VARIANTS = ("storm from the start", "rising wind (curriculum)", "all winds at once")


@dataclass(frozen=True)
class Run:
    """
    One training.

    :param variant: one of ``VARIANTS``
    :param seed: of the training
    :param args: the command line
    """

    variant: str
    seed: int
    args: argparse.Namespace


@dataclass(frozen=True)
class Result:
    """
    :param scores: mean raw reward in the storm, at each evaluation
    :param storm_steps: steps of the training that were in the storm
    :param seconds: how long it took, without the evaluations
    """

    scores: list[float]
    storm_steps: float
    seconds: float


def wind(power: float) -> dict[str, Any]:
    """Turbulence rises with the wind, up to the strongest that LunarLander recommends."""
    return {"enable_wind": power > 0, "wind_power": power, "turbulence_power": power / 10}


STORM = wind(WINDS[-1])
#: Not by its id: SB3 would have it drawn, and then LunarLander takes twice as long for a step
in_storm = partial(gym.make, ENV, **STORM)
MEMBERS = read_members([{"name": f"wind {power:g}", "env_kwargs": wind(power)} for power in WINDS])


def curriculum(score: float, stage_steps: int) -> CurriculumOptions:
    """
    :param score: with which a stage is over
    :param stage_steps: after how many timesteps it is over anyway
    """
    condition = {"score": score, "steps": stage_steps}
    stages = [{"name": f"wind {power:g}", "env_kwargs": wind(power), "next": condition} for power in WINDS[:-1]]
    return read_curriculum({"stages": [*stages, {"name": f"wind {WINDS[-1]:g}"}]})


class Evaluate(BaseCallback):
    """
    Plays in the storm when each of some equal parts of the training is over.

    :param parts: how many
    :param n_episodes: episodes each time
    :param total: timesteps of the training
    """

    def __init__(self, parts: int, n_episodes: int, total: int) -> None:
        super().__init__()
        self._at = [total * (part + 1) // parts for part in range(parts)]
        self._n_episodes = n_episodes
        self.scores: list[float] = []
        self.seconds = 0.0

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        # After an update; the last evaluation is at the end of training
        if self.num_timesteps >= self._at[len(self.scores)]:
            self._evaluate()

    def _on_training_end(self) -> None:
        self._evaluate()

    def _evaluate(self) -> None:
        start = time.perf_counter()
        env = make_vec_env(in_storm, 10, seed=1_000_000)
        rewards, _ = evaluate_policy(self.model, env, self._n_episodes)
        self.scores.append(float(rewards))
        env.close()
        self.seconds += time.perf_counter() - start


def train(run: Run) -> Result:
    th.set_num_threads(1)
    args = run.args
    hyperparams = yaml.safe_load(hyperparams_file("ppo_ext").read_text(encoding="utf-8"))[ENV]
    n_envs, _ = hyperparams.pop("n_envs"), hyperparams.pop("n_timesteps")
    evaluate = Evaluate(args.evaluations, args.eval_episodes, args.n_timesteps)
    callbacks: list[BaseCallback] = [evaluate]
    config = curriculum(args.score, int(args.n_timesteps * args.stage_share))
    if run.variant == VARIANTS[1]:
        callbacks.append(Curriculum(config, verbose=args.verbose))
    env = make_env(run, n_envs, config)
    # One process a run: several of them share the cores
    model = PPOExt(env=env, seed=run.seed, device="cpu", fast="alone", **hyperparams)
    start = time.perf_counter()
    model.learn(args.n_timesteps, callback=callbacks)
    seconds = time.perf_counter() - start - evaluate.seconds
    env.close()
    return Result(evaluate.scores, storm_steps(run, model), seconds)


def storm_steps(run: Run, model: PPOExt) -> float:
    if run.variant == VARIANTS[1]:
        state = callback_state(model)["curriculum"]
        return state["stage_steps"] if state["stage"] == len(WINDS) - 1 else 0
    if run.variant == VARIANTS[2]:
        names = [member.name for member in members_of_envs(MEMBERS, model.n_envs)]
        return model.num_timesteps * names.count(MEMBERS[-1].name) / model.n_envs
    return model.num_timesteps


def make_env(run: Run, n_envs: int, config: CurriculumOptions) -> VecEnv:
    if run.variant != VARIANTS[2]:
        wrap = config.wrap if run.variant == VARIANTS[1] else None
        return make_vec_env(in_storm, n_envs, seed=run.seed, wrapper_class=wrap)
    env = DummyVecEnv(member_fns(MEMBERS, in_storm, n_envs, seed=run.seed))
    env.seed(run.seed)
    return env


def table(runs: list[Run], results: list[Result]) -> str:
    args = runs[0].args
    times = [args.n_timesteps * (part + 1) // args.evaluations for part in range(args.evaluations)]
    header = [
        "variant",
        *(f"at {steps:,}" for steps in times),
        "each seed, at the end",
        "steps in the storm",
        "s a run",
    ]
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    for variant in VARIANTS:
        group = [result for run, result in zip(runs, results, strict=True) if run.variant == variant]
        scores = np.array([result.scores for result in group])
        cells = [f"{mean:.1f} ± {std:.1f}" for mean, std in zip(scores.mean(axis=0), scores.std(axis=0), strict=True)]
        each = ", ".join(f"{score:.0f}" for score in scores[:, -1])
        storm, seconds = (np.mean([getattr(result, name) for result in group]) for name in ("storm_steps", "seconds"))
        lines.append(f"| {' | '.join([variant, *cells, each, f'{storm:,.0f}', f'{seconds:.0f}'])} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--n-timesteps", type=int, default=1_000_000, help="agent steps of each run")
    parser.add_argument("--seeds", type=int, default=5, help="runs of each variant")
    parser.add_argument("--score", type=float, default=200.0, help="score at which a stage ends")
    parser.add_argument(
        "--stage-share", type=float, default=0.15, help="share of all steps after which a stage ends anyway"
    )
    parser.add_argument("--evaluations", type=int, default=4, help="evaluations per training")
    parser.add_argument("--eval-episodes", type=int, default=100, help="episodes per evaluation")
    parser.add_argument("--jobs", type=int, default=1, help="trainings at a time, one thread each")
    parser.add_argument("--verbose", type=int, default=0, help="1 prints when a stage ends")
    args = parser.parse_args()
    runs = [Run(variant, seed, args) for seed in range(1, args.seeds + 1) for variant in VARIANTS]
    results = []
    with ProcessPoolExecutor(args.jobs, mp_context=multiprocessing.get_context("spawn")) as pool:
        for run, result in zip(runs, pool.map(train, runs), strict=True):
            print(f"{run.variant}, seed {run.seed}: {result.scores[-1]:.1f}", flush=True)
            results.append(result)
    print(f"\nMean reward of {args.eval_episodes} deterministic episodes in the storm, ± over {args.seeds} seeds:\n")
    print(table(runs, results))


if __name__ == "__main__":
    main()
