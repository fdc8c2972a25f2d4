"""Compare the speed of vectorised environments: SB3's two, MulticoreVecEnv, and CartPole in NumPy.

    OMP_NUM_THREADS=1 python scripts/bench_vec_env.py

Each row's environments exist at the same time and are stepped in turns with the same random actions, so that a machine
that is busy with other things slows all of them alike. The last columns say something on a busy machine too: the CPU
time of the busiest process for a step, which no number of free cores makes shorter (on Linux). Environments carry
Monitor wrappers, as with RL Zoo, and none renders (an id instead of a function would make SB3 ask for pictures, and
LunarLander simulate its sparks).
"""

from __future__ import annotations

import argparse
import functools
import math
import multiprocessing
import os
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import ale_py
import gymnasium as gym
import numpy as np
from stable_baselines3.common.env_util import make_vec_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv

from sb3_ext.vec_env.cartpole import CartPoleVecEnv
from sb3_ext.vec_env.multicore import MulticoreVecEnv

gym.register_envs(ale_py)


def make_pong() -> gym.Env:
    return gym.make("ALE/Pong-v5", obs_type="ram", frameskip=4)


#: Function that makes an environment, number of copies
CASES: dict[str, tuple[Callable[[], gym.Env], int]] = {
    "LunarLander-v3": (functools.partial(gym.make, "LunarLander-v3"), 16),
    "Pong RAM": (make_pong, 8),
    "Pendulum-v1": (functools.partial(gym.make, "Pendulum-v1"), 8),
    "CartPole-v1": (functools.partial(gym.make, "CartPole-v1"), 8),
}
SIDES: list[type[VecEnv]] = [DummyVecEnv, SubprocVecEnv, MulticoreVecEnv]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--cases", nargs="+", choices=CASES, default=list(CASES))
    parser.add_argument("--rounds", type=int, default=5, help="turns of each side; the median is reported")
    parser.add_argument("--seconds", type=float, default=1.5, help="length of DummyVecEnv's turn")
    parser.add_argument("--n-workers", type=int, help="of MulticoreVecEnv; the usable cores by default")
    parser.add_argument("--policy-us", type=float, default=0.0, help="microseconds of other work between two steps")
    args = parser.parse_args()

    sides = "DummyVecEnv | SubprocVecEnv | MulticoreVecEnv"
    print(f"| environment | copies | {sides} | to Dummy | to Subproc | CPU µs a step: Dummy | Subproc | Multicore |")
    print("|---|---|---|---|---|---|---|---|---|---|")
    for case in args.cases:
        speeds, floors = measure(case, args.rounds, args.seconds, args.n_workers, args.policy_us)
        dummy, subproc, multicore = (speeds[side.__name__] for side in SIDES)
        row = f"| {case} | {CASES[case][1]} | {dummy:,.0f} | {subproc:,.0f} | {multicore:,.0f} |"
        cpu = " | ".join(f"{floors[side.__name__]:,.0f}" for side in SIDES)
        print(f"{row} {multicore / dummy:.2f}x | {multicore / subproc:.2f}x | {cpu} |", flush=True)
        if (vectorised := speeds.get(CartPoleVecEnv.__name__)) is not None:
            ratios = f"{vectorised / dummy:.2f}x | {vectorised / subproc:.2f}x |"
            print(f"| {case} in NumPy | {CASES[case][1]} | | | {vectorised:,.0f} | {ratios} | | |")
    cores = len(os.sched_getaffinity(0))
    print(f"\nSteps of single environments a second, medians of {args.rounds} turns.")
    print(f"{cores} cores; load average at the end {os.getloadavg()[0]:.1f}.")


def measure(
    case: str, n_rounds: int, seconds: float, n_workers: int | None, policy_us: float
) -> tuple[dict[str, float], dict[str, float]]:
    """
    :return: for each kind of vectorised environment, steps of single environments a second, and microseconds of CPU
        time that its busiest process takes for a step of all of them
    """
    make_env, n_envs = CASES[case]
    vec_envs: dict[str, VecEnv] = {}
    processes: dict[str, list[int]] = {}
    for side in SIDES:
        others = {process.pid for process in multiprocessing.active_children()}
        kwargs = {"n_workers": n_workers} if side is MulticoreVecEnv else {}
        vec_envs[side.__name__] = make_vec_env(make_env, n_envs, seed=0, vec_env_cls=side, vec_env_kwargs=kwargs)  # type: ignore[arg-type]
        children = {process.pid for process in multiprocessing.active_children()} - others
        processes[side.__name__] = [os.getpid(), *(pid for pid in children if pid is not None)]
    if case == "CartPole-v1":
        vec_envs[CartPoleVecEnv.__name__] = CartPoleVecEnv(n_envs)
        vec_envs[CartPoleVecEnv.__name__].seed(0)
        processes[CartPoleVecEnv.__name__] = [os.getpid()]
    space = vec_envs["DummyVecEnv"].action_space
    space.seed(0)
    actions = [np.stack([space.sample() for _ in range(n_envs)]) for _ in range(500)]
    for vec_env in vec_envs.values():
        vec_env.reset()
        time_steps(vec_env, actions, 100, policy_us)
    n_steps = max(100, round(seconds * 300 / time_steps(vec_envs["DummyVecEnv"], actions, 300, policy_us)))
    times: dict[str, list[float]] = {name: [] for name in vec_envs}
    busiest: dict[str, list[float]] = {name: [] for name in vec_envs}
    for _ in range(n_rounds):
        for name, vec_env in vec_envs.items():
            before = [cpu_time(pid) for pid in processes[name]]
            times[name].append(time_steps(vec_env, actions, n_steps, policy_us))
            used = [cpu_time(pid) - start for pid, start in zip(processes[name], before, strict=True)]
            busiest[name].append(1e6 * max(used) / n_steps)
    for vec_env in vec_envs.values():
        vec_env.close()
    speeds = {name: n_steps * n_envs / statistics.median(measured) for name, measured in times.items()}
    return speeds, {name: statistics.median(measured) for name, measured in busiest.items()}


def cpu_time(pid: int) -> float:
    """Seconds that a process has spent on a CPU."""
    try:
        return 1e-9 * int(Path(f"/proc/{pid}/schedstat").read_text(encoding="utf-8").split()[0])
    except OSError:
        return math.nan


def time_steps(vec_env: VecEnv, actions: list[np.ndarray], n_steps: int, policy_us: float) -> float:
    """
    :param policy_us: microseconds that the main process is busy with before each step, as a policy keeps it busy
    :return: seconds
    """
    start = time.perf_counter()
    for step in range(n_steps):
        until = time.perf_counter() + 1e-6 * policy_us
        while time.perf_counter() < until:
            pass
        vec_env.step(actions[step % len(actions)])
    return time.perf_counter() - start


if __name__ == "__main__":
    main()
