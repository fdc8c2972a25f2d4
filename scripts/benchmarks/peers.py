"""Compares the training speed of several PPO implementations with the same hyperparameters (RL Zoo's).

python scripts/benchmarks/peers.py                                    # CartPole-v1 and LunarLander-v3
python scripts/benchmarks/peers.py --envs CartPole-v1 --rounds 3 --seconds 4
python scripts/benchmarks/peers.py --sbx-python sbx-venv/bin/python   # SBX from its own virtual environment

stock: SB3's PPO. ext: ppo_ext. sbx: SBX's PPO, in JAX. loop: plain_loop.py, a single-file PPO like those people write
themselves. All use two MLPs with two layers of 64 tanh units. Each side runs in its own process, in turns, with its
best number of threads: a first round tries one thread and all cores. The figure is the median over the rounds of
training steps per second (rollouts and updates), without start-up and JAX compilation.

SBX is optional and not a dependency of this package:
python -m venv sbx-venv && sbx-venv/bin/pip install sbx-rl "gymnasium[box2d]"
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from dataclasses import asdict
from functools import partial

from plain_loop import Hyperparams, schedule
from speed import (
    FOLDER,
    Measured,
    Task,
    add_threads,
    compare,
    measure_side,
    memory,
    print_table,
    run_apart,
    zoo_file,
    zoo_section,
)

SIDES = ["stock", "ext", "sbx", "loop"]


def measure_sbx(env_id: str, hyperparams: Hyperparams, threads: int, seconds: float) -> Measured:
    """Measure SBX's PPO in this process."""
    import gymnasium as gym
    import torch as th
    from sbx import PPO
    from stable_baselines3.common.env_util import make_vec_env

    from sb3_ext.runs.speed import measure

    th.set_num_threads(threads)
    # By its id, SB3 would make it ready to be drawn, RL Zoo doesn't: LunarLander's steps would take twice as long
    env = make_vec_env(lambda: gym.make(env_id), hyperparams.n_envs, seed=0)
    options = asdict(hyperparams)
    del options["n_envs"], options["n_timesteps"]
    options |= {name: schedule(options[name]) for name in ("learning_rate", "clip_range")}
    model = PPO(env=env, seed=0, **options)
    # JAX compiles in the first two rollouts and updates, and once more when an episode first runs out of time
    model.learn(hyperparams.n_envs * hyperparams.n_steps)
    obs, _ = model.policy.prepare_obs(model.observation_space.sample())
    model.vf.apply(model.policy.vf_state.params, obs)
    return {**measure(model, seconds)._asdict(), "memory": memory()}


def measure_peer(env_id: str, seconds: float, sbx_python: str, side: str, threads: int) -> Measured:
    """Measure a side in a process of its own."""
    if side == "sbx":
        job = {"env_id": env_id, "hyperparams": zoo_section(env_id), "threads": threads, "seconds": seconds}
        # NPROC: how many threads JAX takes on a CPU
        return run_apart([sbx_python, __file__, "--job", json.dumps(job)], {**sbx_env(), "NPROC": str(threads)})
    if side == "loop":
        command = [sys.executable, str(FOLDER / "plain_loop.py"), "--env", env_id]
        return run_apart([*command, "--threads", str(threads), "--seconds", str(seconds)])
    return measure_side(Task(env_id, env_id, str(zoo_file())), seconds, side, threads)


def sbx_env() -> dict[str, str]:
    """Lets another virtual environment's interpreter find this package; it needs nothing that SB3 doesn't have."""
    paths = [str(FOLDER.resolve().parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "JAX_PLATFORMS": "cpu"}


def missing_sbx(python: str) -> str | None:
    """Why SBX can't be measured with an interpreter, if it can't."""
    try:
        run = subprocess.run([python, "-c", "import sbx, Box2D"], capture_output=True, text=True, env=sbx_env())
    except OSError as error:
        return str(error)
    return run.stderr.strip().splitlines()[-1] if run.returncode else None


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", nargs="+", default=["CartPole-v1", "LunarLander-v3"], metavar="ENV")
    parser.add_argument("--sides", nargs="+", choices=SIDES, default=SIDES, help="the first is the baseline")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=10.0, help="seconds of training per side and round")
    parser.add_argument("--sbx-python", default=sys.executable, metavar="PATH", help="an interpreter that has sbx-rl")
    add_threads(parser)
    parser.add_argument("--job", type=json.loads, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> None:
    args = parse_args()
    if args.job:
        args.job["hyperparams"] = Hyperparams.read(args.job["hyperparams"])
        print(json.dumps(measure_sbx(**args.job)))
        return
    for env_id in args.envs:  # says at once what can't be compared
        Hyperparams.read(zoo_section(env_id))
    sides = args.sides
    if "sbx" in sides and (reason := missing_sbx(args.sbx_python)):
        sides = [side for side in sides if side != "sbx"]
        print(f"SBX is left out, {args.sbx_python} can't import it ({reason}). To have it: python -m venv sbx-venv &&")
        print('sbx-venv/bin/pip install sbx-rl "gymnasium[box2d]", then --sbx-python sbx-venv/bin/python', flush=True)
    start = time.time()
    lines = []
    for env_id in args.envs:
        measure = partial(measure_peer, env_id, args.seconds, args.sbx_python)
        lines += compare(env_id, sides, measure, args.rounds, args.threads)
    print_table(start, lines)


if __name__ == "__main__":
    main()
