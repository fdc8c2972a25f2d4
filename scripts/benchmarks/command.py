"""Compares whole trainings with RL Zoo's command: ppo_ext with everything on, and SB3's PPO. The same hyperparameters.

python scripts/benchmarks/command.py                                # the tasks of docs/performance.md
python scripts/benchmarks/command.py --tasks cartpole --rounds 5 --seconds 35

From the command to the prompt: start-up, evaluations, logs, metrics, alerts, checkpoints and the report are part of
the time. Each side trains for as many steps as it can in about --seconds; the two take turns. A first round finds that
number, and whether SB3's PPO is faster with one torch thread or with all. Memory is the highest sum over all processes
of a run, with shared pages counted once.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from typing import NamedTuple

import psutil
from speed import FOLDER, about_the_run, zoo_file

#: Steps of the first runs, which find the speed: enough for start-up not to hide it
_SECONDS_TO_START = 6.0


class Task(NamedTuple):
    """
    :param n_timesteps: SB3's PPO needs some ten seconds for them
    :param hyperparams: changed on both sides, as RL Zoo's ``--hyperparams`` takes them
    """

    env_id: str
    n_timesteps: int
    hyperparams: tuple[str, ...] = ()
    arguments: tuple[str, ...] = ()
    algos: tuple[str, str] = ("ppo", "ppo_ext")


#: LSTMs have an RL Zoo section of their own
_LSTM = ("ppo_lstm", "ppo_lstm_ext")
TASKS = {
    "cartpole": Task("CartPole-v1", 40_000),
    "lunar": Task("LunarLander-v3", 50_000),
    "acrobot": Task("Acrobot-v1", 40_000),
    "mountaincar": Task("MountainCar-v0", 50_000),
    "pendulum": Task("Pendulum-v1", 30_000, ("use_sde:False",)),
    "pendulum-gsde": Task("Pendulum-v1", 30_000),
    "hopper": Task("Hopper-v4", 30_000),
    "cartpole-lstm": Task("CartPoleNoVel-v1", 15_000, algos=_LSTM),
    # ppo_ext has a section of its own for it
    "pong": Task("Pong-v5", 4_000, arguments=("--eval-freq", "-1", "--conf-file", str(zoo_file()))),
}


class Side(NamedTuple):
    algo: str
    arguments: tuple[str, ...] = ()


class Outcome(NamedTuple):
    """Of a run."""

    seconds: float
    megabytes: float


def run(task: Task, side: Side, n_timesteps: int) -> Outcome:
    """Train from the command to the prompt."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "rl_zoo3.train", "--algo", side.algo, "--env", task.env_id, "-f", folder]
        command += ["--n-timesteps", str(n_timesteps), *task.arguments, *side.arguments]
        command += ["--hyperparams", *task.hyperparams] if task.hyperparams else []
        start, highest = time.perf_counter(), 0.0
        with open(f"{folder}/output", "w+", encoding="utf-8") as output:
            process = psutil.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=folder, env=_environment())
            while process.poll() is None:
                highest = max(highest, _megabytes(process))
                try:
                    process.wait(1.0)
                except psutil.TimeoutExpired:
                    continue
            if process.returncode != 0:
                output.seek(0)
                raise SystemExit(f"{' '.join(command)} failed:\n{output.read()[-3000:]}")
        return Outcome(time.perf_counter() - start, highest)


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(FOLDER.parents[1]), os.environ.get("PYTHONPATH", "")])}


def _megabytes(process: psutil.Process) -> float:
    """Of a process and its children, with each shared page counted once."""
    total = 0.0
    try:
        for member in [process, *process.children(recursive=True)]:
            total += member.memory_full_info().pss
    except psutil.Error:
        return 0.0  # one has just ended
    return total / 2**20


def find_size(task: Task, side: Side, seconds: float) -> tuple[float, int]:
    """Steps a second of a short run without its start, and the number of steps that take ``seconds``."""
    n_timesteps, used = task.n_timesteps, 0.0
    while used < 2 * _SECONDS_TO_START:
        used = run(task, side, n_timesteps).seconds
        n_timesteps *= 3
    speed = n_timesteps / 3 / max(used - _SECONDS_TO_START, 1.0)
    return speed, int(speed * (seconds - _SECONDS_TO_START))


def compare(name: str, task: Task, rounds: int, seconds: float) -> str:
    """The table's line for a task."""
    stock_algo, our_algo = task.algos
    ours, candidates = Side(our_algo), [Side(stock_algo, ("--num-threads", str(n))) for n in (1, os.cpu_count() or 1)]
    sized = [(*find_size(task, side, seconds), side) for side in candidates]
    _, stock_steps, stock = max(sized, key=lambda found: found[0])
    sizes = {stock: stock_steps, ours: find_size(task, ours, seconds)[1]}
    outcomes: dict[Side, list[Outcome]] = {side: [] for side in sizes}
    for number in range(rounds):
        for side, n_timesteps in sizes.items():
            outcomes[side].append(run(task, side, n_timesteps))
        speeds = [f"{side.algo} {sizes[side] / outcomes[side][-1].seconds:,.0f}" for side in sizes]
        print(f"{name}: round {number + 1} of {rounds}: {', '.join(speeds)} steps/s", file=sys.stderr, flush=True)
    speeds_of = {side: [sizes[side] / outcome.seconds for outcome in outcomes[side]] for side in sizes}
    ratios = [our / their for our, their in zip(speeds_of[ours], speeds_of[stock], strict=True)]
    cells = [name, stock.arguments[1], *(f"{statistics.median(of_side):,.0f}" for of_side in speeds_of.values())]
    cells.append(f"{statistics.median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})")
    memory = [statistics.median(outcome.megabytes for outcome in outcomes[side]) for side in sizes]
    cells.append(" / ".join(f"{of_side:.0f}" for of_side in memory))
    return f"| {' | '.join(cells)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=35.0, help="of each run, about")
    args = parser.parse_args()
    start = time.time()
    print("| task | threads of SB3's PPO | SB3's PPO, steps/s | ours, steps/s | ratio (range) | MiB |")
    print("|---|---|---|---|---|---|")
    for name in args.tasks:
        print(compare(name, TASKS[name], args.rounds, args.seconds), flush=True)
    print(f"\n{about_the_run(start)}")


if __name__ == "__main__":
    main()
