"""Compares the training speed of ppo_ext with SB3's PPO: same hyperparameters, separate processes, in turns.

python scripts/benchmarks/speed.py                                   # the four tasks of docs/performance.md
python scripts/benchmarks/speed.py --tasks cartpole lunar --rounds 3
python scripts/benchmarks/speed.py --tasks cartpole --sides stock ext plain

plain is PPOExt with fast=False and DummyVecEnv. Each side runs with its best number of torch threads: a first round
tries one thread and all cores. The figure is the median over the rounds of training steps per second (rollouts and
updates), without start-up and logging. Memory is that of all processes together; shared pages are counted once.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

FOLDER = Path(__file__).parent
#: Seconds a step in env, inference and update, bytes of memory, steps a second
Measured = dict[str, float]
#: Measures a side, by its name, with a number of threads
Measure = Callable[[str, int], Measured]


class Task(NamedTuple):
    """An environment, with a hyperparameter file where RL Zoo has none."""

    title: str
    env_id: str
    conf: str | None = None


def zoo_file() -> Path:
    """RL Zoo's hyperparameters for PPO."""
    package = find_spec("rl_zoo3")
    assert package is not None and package.origin is not None
    return Path(package.origin).parent / "hyperparams" / "ppo.yml"


TASKS = {
    "cartpole": Task("CartPole-v1", "CartPole-v1"),
    "lunar": Task("LunarLander-v3", "LunarLander-v3"),
    # ppo_ext has a section of its own for it
    "pong": Task("Pong-v5, pixels", "Pong-v5", str(zoo_file())),
    "ram": Task("Pong, RAM", "ALE/Pong-v5", str(FOLDER / "speed.yml")),
}
#: Algorithm and changed hyperparameters of each side
SIDES: dict[str, tuple[str, dict[str, Any]]] = {
    "stock": ("ppo", {}),
    "ext": ("ppo_ext", {}),
    "plain": ("ppo_ext", {"fast": False, "ext": {"native": False, "vec_env": "dummy"}}),
}


def zoo_section(env_id: str) -> dict[str, Any]:
    """What RL Zoo's file for PPO says about an environment."""
    import yaml

    sections = yaml.safe_load(zoo_file().read_text(encoding="utf-8"))
    if env_id not in sections:
        raise SystemExit(f"RL Zoo's ppo.yml has no section {env_id!r}, only: {', '.join(sections)}.")
    return sections[env_id]


def measure_here(
    algo: str, env_id: str, hyperparams: dict[str, Any], conf: str | None, threads: int, seconds: float
) -> Measured:
    """Measure a training in this process."""
    import torch as th

    from sb3_ext.runs.speed import measure
    from sb3_ext.zoo.models import make_model

    th.set_num_threads(threads)
    with make_model(algo, env_id, hyperparams, conf=conf) as model:
        th.set_num_threads(threads)
        return {**measure(model, seconds)._asdict(), "memory": memory()}


def memory() -> int:
    """Bytes of this process and its children, with each shared page counted once."""
    total = 0
    for pid in [os.getpid(), *_children()]:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="utf-8").splitlines():
            if line.startswith("Pss:"):
                total += 1024 * int(line.split()[1])
    return total


def _children() -> list[int]:
    return [
        int(pid) for pid in Path(f"/proc/{os.getpid()}/task/{os.getpid()}/children").read_text(encoding="utf-8").split()
    ]


def measure_apart(
    algo: str,
    env_id: str,
    hyperparams: dict[str, Any],
    *,
    conf: str | None = None,
    threads: int = 1,
    seconds: float = 10.0,
) -> Measured:
    """Measure a training in a process of its own."""
    job: dict[str, Any] = {"algo": algo, "env_id": env_id, "hyperparams": hyperparams, "conf": conf}
    job |= {"threads": threads, "seconds": seconds}
    return run_apart([sys.executable, __file__, "--job", json.dumps(job)])


def measure_side(task: Task, seconds: float, side: str, threads: int) -> Measured:
    """Measure one of ``SIDES`` on a task."""
    algo, hyperparams = SIDES[side]
    return measure_apart(algo, task.env_id, hyperparams, conf=task.conf, threads=threads, seconds=seconds)


def run_apart(command: list[str], env: dict[str, str] | None = None) -> Measured:
    """What a command prints as JSON in its last line, and the steps a second that follow from it."""
    start, cpu_start = time.time(), _cpu_seconds_of_children()
    run = subprocess.run(command, capture_output=True, text=True, env=env)
    if run.returncode != 0:
        raise SystemExit(f"{' '.join(command)} failed:\n{run.stderr[-3000:]}")
    share = (_cpu_seconds_of_children() - cpu_start) / (time.time() - start)
    if share < 0.7:
        print(f"A measurement had a core for only {share:.0%} of its time: the machine is busy.", file=sys.stderr)
    result = json.loads(run.stdout.strip().splitlines()[-1])
    return {**result, "steps_per_second": 1 / (result["env"] + result["inference"] + result["update"])}


def _cpu_seconds_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def best_threads(side: str, measure: Measure) -> int:
    """The number of threads with which a side is fastest: one, or all cores."""
    counts = sorted({1, len(os.sched_getaffinity(0))})
    return max(counts, key=lambda n: measure(side, n)["steps_per_second"])


def compare(title: str, sides: list[str], measure: Measure, rounds: int, n_threads: int | None = None) -> list[str]:
    """The table's lines for a task."""
    threads = {side: n_threads or best_threads(side, measure) for side in sides}
    results: dict[str, list[Measured]] = {side: [] for side in sides}
    for number in range(rounds):
        for side in sides:
            results[side].append(measure(side, threads[side]))
        done = ", ".join(f"{side} {results[side][-1]['steps_per_second']:,.0f}" for side in sides)
        print(f"{title}: round {number + 1} of {rounds}: {done} steps/s", file=sys.stderr, flush=True)
    lines = []
    for side, of_side in results.items():
        cells = [title, side, str(threads[side]), f"{median(of_side, 'steps_per_second'):,.0f}"]
        cells += [ratio(of_side, results[sides[0]]), *microseconds(of_side), f"{median(of_side, 'memory') / 2**20:.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return lines


def median(results: list[Measured], name: str) -> float:
    """Of what the rounds measured under a name."""
    return statistics.median(result[name] for result in results)


def ratio(ours: list[Measured], theirs: list[Measured]) -> str:
    """Median and range, over the rounds, of how many times faster one side is."""
    pairs = zip(ours, theirs, strict=True)
    ratios = [our["steps_per_second"] / their["steps_per_second"] for our, their in pairs]
    return f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})"


def microseconds(results: list[Measured]) -> list[str]:
    """Of a step: in the environments, in inference and in the update."""
    return [f"{1e6 * median(results, name):.0f}" for name in ("env", "inference", "update")]


def print_table(start: float, lines: list[str]) -> None:
    """The lines of :func:`compare`, with the column titles and what the machine was like."""
    print(f"\n{about_the_run(start)}\n")
    print("| task | side | threads | steps/s | ratio (range) | env, µs a step | inference | update | MiB |")
    print("|---|---|---|---|---|---|---|---|---|")
    print("\n".join(lines))


def about_the_run(start: float) -> str:
    return f"{time.time() - start:.0f} s, {len(os.sched_getaffinity(0))} cores, load average {os.getloadavg()[2]:.1f}"


def add_threads(parser: argparse.ArgumentParser) -> None:
    what = "give each side so many, and try none; on a busy machine a try with all cores can take minutes"
    parser.add_argument("--threads", type=int, metavar="N", help=what)


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument(
        "--sides", nargs="+", choices=list(SIDES), default=["stock", "ext"], help="the first is the baseline"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of training per side and round")
    add_threads(parser)
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    if args.job:
        print(json.dumps(measure_here(**args.job)))
        return
    start = time.time()
    lines = []
    for task in map(TASKS.__getitem__, args.tasks):
        lines += compare(task.title, args.sides, partial(measure_side, task, args.seconds), args.rounds, args.threads)
    print_table(start, lines)


if __name__ == "__main__":
    main()
