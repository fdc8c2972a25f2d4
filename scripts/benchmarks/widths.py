"""Compares ppo_ext with SB3's PPO by network width and batch size, on an idle and a busy machine.

python scripts/benchmarks/widths.py                                     # the tables of docs/performance.md
python scripts/benchmarks/widths.py --widths 256 --batch-sizes 64 --seconds 5 --threads 2

Both train on CartPole-v1 (8 environments of the same class) with two hidden layers, rollouts of 512 steps or one
minibatch, and 2 epochs. They take turns of one rollout and update each, in one process; the first turn does not count.
A cell is the median speed-up of ppo_ext over the turns, with its steps per second. For the busy table, two busy loops
run next to the training.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import torch as th
from stable_baselines3 import PPO
from stable_baselines3.common.logger import configure
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext import PPOExt
from sb3_ext.vec_env.cartpole import CartPoleVecEnv

N_ENVS = 8
#: More than the fast path needs to find out whether a second process is faster; and as many as a slow cell gets
USUAL_TURNS, FEWEST_TURNS = 9, 3
#: A cell ends after so many times the seconds that each side should get
PATIENCE = 10
#: Ends with the process that started it, however that ends
BUSY_LOOP = "import os; parent = os.getppid()\nwhile os.getppid() == parent: sum(range(10**5))"


class Cell(NamedTuple):
    """:param ratio: how many times faster than SB3's PPO"""

    ratio: float
    steps_per_second: float

    def __str__(self) -> str:
        return f"{self.ratio:.2f} ({self.steps_per_second:,.0f})"


class Training:
    """A model that learns one rollout after the other; ``learn`` would start and end the critic's process each time."""

    def __init__(self, algorithm: type[OnPolicyAlgorithm], width: int, batch_size: int) -> None:
        self.model = algorithm(
            "MlpPolicy",
            CartPoleVecEnv(N_ENVS),
            n_steps=max(batch_size, 512) // N_ENVS,
            batch_size=batch_size,
            n_epochs=2,
            policy_kwargs={"net_arch": [width, width]},
            seed=0,
            device="cpu",
        )  # type: ignore[call-arg]
        self.model.set_logger(configure(format_strings=[]))
        _, self._callback = self.model._setup_learn(10**9)

    def turn(self) -> float:
        """Seconds for one rollout and its update."""
        start, model = time.perf_counter(), self.model
        assert model.env is not None
        model.collect_rollouts(model.env, self._callback, model.rollout_buffer, n_rollout_steps=model.n_steps)
        model.train()
        return time.perf_counter() - start


def measure(width: int, batch_size: int, seconds: float) -> Cell:
    """:param seconds: of training on each side"""
    stock, ours = Training(PPO, width, batch_size), Training(PPOExt, width, batch_size)
    stock.turn(), ours.turn()
    turns: list[tuple[float, float]] = []
    end = time.monotonic() + PATIENCE * seconds
    while len(turns) < FEWEST_TURNS or (time.monotonic() < end and not _is_enough(turns, seconds)):
        turns.append((stock.turn(), ours.turn()))
    steps = ours.model.n_steps * N_ENVS * len(turns)
    return Cell(statistics.median(theirs / own for theirs, own in turns), steps / sum(own for _, own in turns))


def _is_enough(turns: list[tuple[float, float]], seconds: float) -> bool:
    return len(turns) >= USUAL_TURNS and sum(own for _, own in turns) >= seconds


@contextmanager
def busy_loops(count: int) -> Iterator[None]:
    """Keep cores busy for a while."""
    loops = [subprocess.Popen([sys.executable, "-S", "-c", BUSY_LOOP]) for _ in range(count)]
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


def print_table(title: str, args: argparse.Namespace) -> None:
    print(f"{title}\n\n| width | {' | '.join(f'batch {size}' for size in args.batch_sizes)} |")
    print("|---" * (1 + len(args.batch_sizes)) + "|")
    for width in args.widths:
        print(f"| {width} |", end="", flush=True)
        for batch_size in args.batch_sizes:
            print(f" {measure(width, batch_size, args.seconds)} |", end="", flush=True)
        print()
    print(f"\nLoad average {os.getloadavg()[0]:.1f} at the end, {os.cpu_count()} cores\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--widths", nargs="+", type=int, default=[32, 64, 128, 256, 512, 1024])
    parser.add_argument("--batch-sizes", nargs="+", type=int, default=[32, 64, 256, 1024, 4096])
    parser.add_argument("--seconds", type=float, default=1.0, help="seconds of training per side and cell")
    parser.add_argument("--threads", type=int, default=1, help="torch threads on both sides")
    parser.add_argument("--busy-loops", nargs="+", type=int, default=[0, 2], help="one table per number")
    args = parser.parse_args()
    th.set_num_threads(args.threads)
    for count in args.busy_loops:
        with busy_loops(count):
            print_table(f"With {count} busy loops, {args.threads} threads of torch:", args)


if __name__ == "__main__":
    main()
