"""How fast our PPO trains beside SB3's: the same hyperparameters, each side in its own process, in turns.

python scripts/speed.py                                   # the four tasks of docs/performance.md
python scripts/speed.py --tasks cartpole lunar --rounds 3
python scripts/speed.py --tasks cartpole --sides stock ext plain   # plain: PPOExt with fast=False and DummyVecEnv

Each side runs with the number of torch's threads that is best for it: a first round tries one thread and all cores. A
figure is the median over the rounds of steps of training a second, collecting and learning, without start-up and
logging. Memory is that of all its processes together, shared pages counted once.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent


class Task(NamedTuple):
    """An environment, with a hyperparameter file where RL Zoo has none."""

    title: str
    env_id: str
    conf: str | None = None


TASKS = {
    "cartpole": Task("CartPole-v1", "CartPole-v1"),
    "lunar": Task("LunarLander-v3", "LunarLander-v3"),
    "pong": Task("Pong-v5, pixels", "Pong-v5"),
    "ram": Task("Pong, RAM", "ALE/Pong-v5", str(FOLDER / "speed.yml")),
}
#: Algorithm and changed hyperparameters of each side
SIDES: dict[str, tuple[str, dict[str, Any]]] = {
    "stock": ("ppo", {}),
    "ext": ("ppo_ext", {}),
    "plain": ("ppo_ext", {"fast": False, "ext": {"native": False, "vec_env": "dummy"}}),
}


def measure_here(args: argparse.Namespace) -> None:
    """Measure one side in this process, and print the result as JSON."""
    import torch as th

    from sb3_ext.cli.speed import make_model, measure

    th.set_num_threads(args.threads)
    task, (algo, hyperparams) = TASKS[args.tasks[0]], SIDES[args.one]
    with make_model(algo, task.env_id, hyperparams, conf=task.conf) as model:
        th.set_num_threads(args.threads)
        speed = measure(model, args.seconds)
        result = {"env": speed.env, "inference": speed.inference, "update": speed.update, "memory": _memory()}
    print(json.dumps(result))


def _memory() -> int:
    """Bytes of this process and its children, with each shared page counted once."""
    total = 0
    for pid in [os.getpid(), *_children()]:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += 1024 * int(line.split()[1])
    return total


def _children() -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text().split()]


def measure_apart(task: str, side: str, threads: int, seconds: float) -> dict[str, float]:
    """Measure one side in a process of its own."""
    command = [sys.executable, __file__, "--one", side, "--tasks", task]
    command += ["--threads", str(threads), "--seconds", str(seconds)]
    run = subprocess.run(command, capture_output=True, text=True)
    if run.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{run.stderr[-3000:]}")
    result = json.loads(run.stdout.strip().splitlines()[-1])
    return {**result, "steps_per_second": 1 / (result["env"] + result["inference"] + result["update"])}


def best_threads(task: str, side: str, seconds: float) -> int:
    counts = sorted({1, len(os.sched_getaffinity(0))})
    return max(counts, key=lambda n: measure_apart(task, side, n, seconds)["steps_per_second"])


def compare(task: str, sides: list[str], rounds: int, seconds: float) -> list[str]:
    """The table's lines for a task."""
    threads = {side: best_threads(task, side, seconds) for side in sides}
    results: dict[str, list[dict[str, float]]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in sides:
            results[side].append(measure_apart(task, side, threads[side], seconds))
        done = ", ".join(f"{side} {results[side][-1]['steps_per_second']:,.0f}" for side in sides)
        print(f"{task}: round {number + 1} of {rounds}: {done} steps/s", file=sys.stderr, flush=True)
    lines = []
    for side in sides:
        ratios = [
            ours["steps_per_second"] / stock["steps_per_second"]
            for ours, stock in zip(results[side], results[sides[0]], strict=True)
        ]

        def median(name: str, side: str = side) -> float:
            return statistics.median(result[name] for result in results[side])

        parts = [f"{1e6 * median(name):.0f}" for name in ("env", "inference", "update")]
        cells = [TASKS[task].title, side, str(threads[side]), f"{median('steps_per_second'):,.0f}"]
        cells += [f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", *parts]
        cells.append(f"{median('memory') / 2**20:.0f}")
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument(
        "--sides", nargs="+", choices=list(SIDES), default=["stock", "ext"], help="the first is the 1.00"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="of training, for each side and round")
    parser.add_argument("--one", choices=list(SIDES), help=argparse.SUPPRESS)
    parser.add_argument("--threads", type=int, default=1, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    if args.one:
        measure_here(args)
        return
    start = time.time()
    lines = [line for task in args.tasks for line in compare(task, args.sides, args.rounds, args.seconds)]
    load = os.getloadavg()[2]
    print(f"\n{time.time() - start:.0f} s, {len(os.sched_getaffinity(0))} cores, load average {load:.1f}\n")
    print("| task | side | threads | steps/s | ratio (range) | env, µs a step | inference | update | MiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))


if __name__ == "__main__":
    main()
