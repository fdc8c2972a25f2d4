"""Measure how many steps of the agent an Atari environment makes in a second: the stock stack and the native one.

    python scripts/bench_atari.py --env Pong-v5 --n-envs 8

Each row plays random actions; the rows take turns, so that other load on the machine meets all of them, and the median
of the turns is reported. The stock stack is what RL Zoo builds: Monitor, AtariWrapper, DummyVecEnv or SubprocVecEnv,
VecFrameStack and VecTransposeImage. Steps are the agent's, 4 frames each. Processor time, of all threads, says what a
row would do on cores that nothing else uses; that of SubprocVecEnv's processes is not measured.
"""

from __future__ import annotations

import argparse
import os
import statistics
import time

import numpy as np
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import DummyVecEnv, SubprocVecEnv, VecEnv, VecFrameStack, VecTransposeImage

import sb3_ext.envs  # noqa: F401  registers Pong-v5
from sb3_ext.vec_env.native_atari import make_native_atari_env


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="Pong-v5")
    parser.add_argument("--n-envs", type=int, default=8)
    parser.add_argument("--steps", type=int, default=200, help="vectorised steps of one turn")
    parser.add_argument("--turns", type=int, default=5)
    args = parser.parse_args()
    envs: dict[str, VecEnv] = {
        "stock, DummyVecEnv": stock(args.env, args.n_envs, DummyVecEnv),
        "stock, SubprocVecEnv": stock(args.env, args.n_envs, SubprocVecEnv),
        "native": make_native_atari_env(args.env, args.n_envs, seed=0),
        "native, one at a time": make_native_atari_env(args.env, args.n_envs, seed=0, num_threads=1),
        "native, exact_pixels=False": make_native_atari_env(args.env, args.n_envs, seed=0, exact_pixels=False),
    }
    turns: dict[str, list[tuple[float, float]]] = {name: [] for name in envs}
    for env in envs.values():
        env.reset()
    for _ in range(args.turns):
        for name, env in envs.items():
            turns[name].append(measure(env, args.steps))
    report(args, turns)
    for env in envs.values():
        env.close()


def report(args: argparse.Namespace, turns: dict[str, list[tuple[float, float]]]) -> None:
    speeds = {name: [speed for speed, _ in measured] for name, measured in turns.items()}
    base = statistics.median(speeds["stock, DummyVecEnv"])
    print(f"{args.env}, {args.n_envs} environments, {len(os.sched_getaffinity(0))} usable cores, ", end="")
    print(f"median (lowest to highest) of {args.turns} turns of {args.steps} steps\n")
    print("| environment | steps/s | range | ratio | µs of processor time a step |\n|---|---|---|---|---|")
    for name, measured in speeds.items():
        median = statistics.median(measured)
        cpu = "" if "Subproc" in name else f"{statistics.median(cpu for _, cpu in turns[name]):.0f}"
        print(f"| {name} | {median:.0f} | {min(measured):.0f} to {max(measured):.0f} | {median / base:.2f} | {cpu} |")


def stock(env_id: str, n_envs: int, vec_env_cls: type[DummyVecEnv] | type[SubprocVecEnv]) -> VecEnv:
    return VecTransposeImage(VecFrameStack(make_atari_env(env_id, n_envs, seed=0, vec_env_cls=vec_env_cls), 4))


def measure(env: VecEnv, n_steps: int) -> tuple[float, float]:
    """Steps a second, and microseconds of this process's threads a step."""
    actions = np.random.default_rng(0).integers(0, env.action_space.n, size=(n_steps, env.num_envs))  # type: ignore[attr-defined]
    start, cpu_start = time.perf_counter(), time.process_time()
    for action in actions:
        env.step(action)
    steps = n_steps * env.num_envs
    return steps / (time.perf_counter() - start), 1e6 * (time.process_time() - cpu_start) / steps


if __name__ == "__main__":
    main()
