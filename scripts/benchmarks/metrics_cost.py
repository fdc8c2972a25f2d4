"""Measures what callbacks cost: two trainings in one process, with and without them, take turns rollout by rollout.

python scripts/benchmarks/metrics_cost.py                                     # the metrics, on CartPole-v1 with ppo_ext
python scripts/benchmarks/metrics_cost.py --turns 2000 --clock cpu            # on a busy machine
python scripts/benchmarks/metrics_cost.py --algo ppo --env LunarLander-v3 --turns 20
python scripts/benchmarks/metrics_cost.py --callbacks sb3_ext.callbacks.Metrics sb3_ext.callbacks.Alerts

Hyperparameters come from the algorithm's file. A round has twenty turns, so work that is not done in every turn counts
too. The figure is the median over the rounds of the time with callbacks divided by the time without, with quartiles.
Rows are built but not written anywhere, so the cost of a table, a file or a tracker is not included.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch as th

METRICS = "sb3_ext.callbacks.Metrics"
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
#: Turns at the start that don't count, and those of a round
WARM_UP, ROUND = 10, 20


class Side:
    """
    One of the two trainings.

    :param model: what trains
    :param callbacks: those that are measured
    :param clock: gives seconds
    """

    def __init__(self, model: Any, callbacks: list[Any], clock: Callable[[], float]) -> None:
        from stable_baselines3.common.logger import configure

        self._model, self._clock = model, clock
        self._turns = 0
        model.set_logger(configure(format_strings=[]))
        self._total, self._callback = model._setup_learn(int(1e7), callbacks or None)
        self._callback.on_training_start({"callback": self._callback}, {})

    def turn(self) -> float:
        """Seconds of a rollout, a row and an update, as SB3's ``learn`` does them."""
        model = self._model
        self._turns += 1
        start = self._clock()
        model.collect_rollouts(model.env, self._callback, model.rollout_buffer, n_rollout_steps=model.n_steps)
        model._update_current_progress_remaining(model.num_timesteps, self._total)
        model.dump_logs(self._turns)
        model.train()
        return self._clock() - start


def make_callbacks(paths: list[str]) -> list[Any]:
    """One of each class, with its defaults."""
    callbacks = []
    for path in paths:
        module, _, name = path.rpartition(".")
        make = getattr(importlib.import_module(module), name)
        # Its clock goes on while the other training has its turn
        callbacks.append(make(max_cost=make().options.max_cost / 2) if path == METRICS else make())
    return callbacks


def compare(args: argparse.Namespace) -> tuple[list[float], float]:
    """The ratio of each round, with callbacks over without, and the mean seconds of a turn without."""
    from sb3_ext.zoo.models import make_model

    hyperparams = {"fast": "alone"} if args.alone else {}
    clock = CLOCKS[args.clock]
    with make_model(args.algo, args.env, hyperparams) as bare, make_model(args.algo, args.env, hyperparams) as watched:
        th.set_num_threads(1)
        without, with_them = Side(bare, [], clock), Side(watched, make_callbacks(args.callbacks), clock)
        taken: dict[Side, list[float]] = {without: [], with_them: []}
        for number in range(WARM_UP + args.turns):
            for side in (without, with_them) if number % 2 == 0 else (with_them, without):
                taken[side].append(side.turn())
    starts = range(WARM_UP, WARM_UP + args.turns, ROUND)
    sums = {side: [sum(seconds[start : start + ROUND]) for start in starts] for side, seconds in taken.items()}
    ratios = [ours / bare for ours, bare in zip(sums[with_them], sums[without], strict=True)]
    return ratios, sum(sums[without]) / args.turns


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--algo", default="ppo_ext")
    parser.add_argument("--env", default="CartPole-v1")
    parser.add_argument("--callbacks", nargs="+", default=[METRICS], metavar="CLASS")
    parser.add_argument("--turns", type=int, default=1000, help="rollouts (with their updates) per training")
    parser.add_argument("--clock", choices=list(CLOCKS), default="wall", help="cpu counts this process only")
    parser.add_argument("--alone", action="store_true", help="ppo_ext without its second process")
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    ratios, seconds = compare(args)
    low, middle, high = statistics.quantiles(ratios, n=4)
    what = ", ".join(path.rpartition(".")[2] for path in args.callbacks)
    print(
        f"{what} on {args.env} with {args.algo}: {middle - 1:+.2%} ({low - 1:+.2%} to "
        f"{high - 1:+.2%}), {args.turns} turns of {1e3 * seconds:.1f} ms without, {args.clock} time, load average "
        f"{os.getloadavg()[0]:.1f}"
    )


if __name__ == "__main__":
    main()
