"""Measures what evaluation costs a training: in a separate process, in the training's process, and none at all.

python scripts/benchmarks/async_eval.py                          # whole trainings, in turns
python scripts/benchmarks/async_eval.py --within --steps 600000  # rollouts of one training, with and without
python scripts/benchmarks/async_eval.py --env LunarLander-v3 --steps 100000 --every 10000 --rounds 3

--within compares rollouts during an evaluation with all others. Prefer it on a machine whose speed varies: both kinds
alternate every few seconds.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from dataclasses import dataclass

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.callbacks.evaluation.callback import Evaluation
from sb3_ext.runs.agents.snapshot import SnapshotFolder
from sb3_ext.zoo.models import make_model

MODES = ("none", "process", "waiting")


@dataclass(frozen=True)
class MakeEnv:
    """Can be sent to another process."""

    env_id: str

    def __call__(self) -> VecEnv:
        return make_vec_env(self.env_id)


@dataclass
class Run:
    """
    :param speed: steps a second, from the first to the last
    :param end: seconds from the last step to the end
    :param evaluations: how many there were
    :param skipped: how many were left out
    """

    speed: float
    end: float
    evaluations: int
    skipped: int


class Clock(BaseCallback):
    """Looks at the time when training starts and when its last step is over, before others do their work."""

    start = end = 0.0

    def _on_training_start(self) -> None:
        self.start = time.perf_counter()

    def _on_step(self) -> bool:
        return True

    def _on_training_end(self) -> None:
        self.end = time.perf_counter()


def train(mode: str, args: argparse.Namespace, seed: int) -> Run:
    """One training in a mode."""
    hyperparams = {"n_envs": args.n_envs} if args.n_envs else {}
    clock = Clock()
    callbacks: list[BaseCallback] = [clock]
    with tempfile.TemporaryDirectory() as folder, make_model(args.algo, args.env, hyperparams, seed=seed) as model:
        evaluation = None
        if mode != "none":
            options = {"every": args.every, "episodes": args.episodes, "process": mode == "process"}
            # Speed without waiting is what is measured
            evaluation = Evaluation(make_env=MakeEnv(args.env), folder=folder, verbose=0, busy="skip", **options)
            callbacks.append(evaluation)
        model.learn(args.steps, callback=callbacks)
        end = time.perf_counter()
        speed = model.num_timesteps / (clock.end - clock.start)
    counts = (0, 0) if evaluation is None else (len(evaluation.evaluations_timesteps), evaluation.skipped)
    return Run(speed, end - clock.end, *counts)


class Rollouts(BaseCallback):
    """
    Times each rollout with its update, by what the evaluation's process did meanwhile.

    :param evaluation: asks the process
    """

    def __init__(self, evaluation: Evaluation) -> None:
        super().__init__()
        self._evaluation = evaluation
        self._started: tuple[float, str] | None = None
        self.seconds: dict[str, list[float]] = {"starting": [], "alone": [], "evaluating": []}

    def _on_step(self) -> bool:
        return True

    def _on_rollout_start(self) -> None:
        now, kind = time.perf_counter(), self._kind()
        if self._started is not None and self._started[1] == kind:  # nothing began or ended in between
            self.seconds[kind].append(now - self._started[0])
        self._started = now, kind

    def _kind(self) -> str:
        worker = self._evaluation._worker
        assert worker is not None
        if not self._evaluation.evaluations_timesteps:
            return "starting"
        return "alone" if worker.pending is None else "evaluating"


def within(args: argparse.Namespace) -> None:
    """Compare the rollouts of one training during an evaluation with all others."""
    with tempfile.TemporaryDirectory() as folder, make_model(args.algo, args.env, {}, seed=1) as model:
        options = {"every": args.every, "episodes": args.episodes, "process": True, "busy": "skip"}
        evaluation = Evaluation(make_env=MakeEnv(args.env), folder=folder, verbose=0, **options)
        rollouts = Rollouts(evaluation)
        model.learn(args.steps, callback=[evaluation, rollouts])
        steps = model.n_steps * model.n_envs
    if not all(rollouts.seconds.values()):
        counts = {kind: len(seconds) for kind, seconds in rollouts.seconds.items()}
        raise SystemExit(f"Some kind of rollout is missing: {counts}. Use more steps, or evaluate less often.")
    medians = {kind: statistics.median(seconds) for kind, seconds in rollouts.seconds.items()}
    totals = {kind: sum(seconds) for kind, seconds in rollouts.seconds.items()}
    duty = totals["evaluating"] / (totals["alone"] + totals["evaluating"])
    share = 1 / (1 - duty + duty * medians["evaluating"] / medians["alone"])
    print(f"{args.algo} on {args.env}, {args.steps:,} steps, {args.episodes} episodes every {args.every:,} steps")
    print("| rollouts | number | steps/s, median | relative to alone |")
    print("|---|---|---|---|")
    for kind, seconds in rollouts.seconds.items():
        print(f"| {kind} | {len(seconds)} | {steps / medians[kind]:,.0f} | {medians['alone'] / medians[kind]:.1%} |")
    print(
        f"Evaluations ran {duty:.0%} of the time, {evaluation.skipped} were skipped: {share:.1%} of the speed without "
        "evaluation, not counting the start of the process"
    )


def snapshot_seconds(args: argparse.Namespace) -> float:
    """Seconds that training stops for a snapshot."""
    times = []
    snapshots = SnapshotFolder(None)
    with make_model(args.algo, args.env, {}) as model:
        model.learn(model.n_steps * model.n_envs)
        for _ in range(20):
            start = time.perf_counter()
            snapshots.take(model)
            times.append(time.perf_counter() - start)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", default="ppo_ext")
    parser.add_argument("--env", default="CartPole-v1", help="an environment without wrappers and normalisation")
    parser.add_argument("--n-envs", type=int, help="training environments; default: from the hyperparameter file")
    parser.add_argument("--steps", type=int, default=200_000, help="timesteps per training")
    parser.add_argument("--every", type=int, default=20_000, help="timesteps between evaluations")
    parser.add_argument("--episodes", type=int, default=5, help="episodes per evaluation")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--within", action="store_true", help="compare rollouts of one training")
    args = parser.parse_args()
    if args.within:
        within(args)
        return
    runs: dict[str, list[Run]] = {mode: [] for mode in MODES}
    for seed in range(args.rounds):
        for mode in MODES:
            runs[mode].append(train(mode, args, seed))
    print(f"{args.algo} on {args.env}, {args.steps:,} steps, {args.episodes} episodes every {args.every:,} steps,")
    print(f"{args.rounds} rounds; a snapshot takes {1000 * snapshot_seconds(args):.1f} ms")
    print("| evaluation | steps/s | relative to none | evaluations | skipped | at the end, s |")
    print("|---|---|---|---|---|---|")
    for mode in MODES:
        median = statistics.median(run.speed for run in runs[mode])
        shares = [run.speed / none.speed for run, none in zip(runs[mode], runs["none"], strict=True)]
        evaluations = statistics.median(run.evaluations for run in runs[mode])
        skipped = statistics.median(run.skipped for run in runs[mode])
        end = statistics.median(run.end for run in runs[mode])
        share = statistics.median(shares)
        print(f"| {mode} | {median:,.0f} | {share:.1%} | {evaluations:g} | {skipped:g} | {end:.2f} |")


if __name__ == "__main__":
    main()
