"""Compares the observations of the native Atari environment with those of SB3's wrappers, from the same states.

    python scripts/checks/atari_pixels.py Pong-v5 Breakout-v5

Both play the same random actions from the same seed, with sticky actions and without no-ops at the start. Rewards and
episode ends are compared too. Differences are in grey levels, of 255.
"""

from __future__ import annotations

import argparse

import numpy as np
from stable_baselines3.common.env_util import make_atari_env
from stable_baselines3.common.vec_env import VecFrameStack, VecTransposeImage

from sb3_ext.vec_env.native_atari import make_native_atari_env

GAMES = ["Pong", "Breakout", "SpaceInvaders", "Seaquest", "Asteroids", "MsPacman", "Qbert", "BeamRider"]
NO_NOOPS = {"noop_max": 0}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("env_ids", nargs="*", default=[f"{game}-v5" for game in GAMES])
    parser.add_argument("--steps", type=int, default=1000)
    args = parser.parse_args()
    print(f"{args.steps} steps, seed {shared_seed()}\n")
    print(
        "| game | exact_pixels | largest | mean | pixels that differ | other differences |\n|---|---|---|---|---|---|"
    )
    for env_id in args.env_ids:
        for exact in (True, False):
            largest, mean, share, others = compare(env_id, exact, args.steps)
            print(f"| {env_id} | {exact} | {largest} | {mean:.4f} | {share:.3%} | {others} |", flush=True)


def compare(env_id: str, exact_pixels: bool, n_steps: int) -> tuple[int, float, float, int]:
    """Largest and mean difference of a pixel, share of pixels that differ, steps with other rewards or ends."""
    seed = shared_seed()
    stock = VecTransposeImage(VecFrameStack(make_atari_env(env_id, seed=seed, wrapper_kwargs=NO_NOOPS), 4))
    native = make_native_atari_env(env_id, seed=seed, wrapper_kwargs=NO_NOOPS, exact_pixels=exact_pixels)
    stock.reset(), native.reset()
    actions = np.random.default_rng(0).integers(0, native.action_space.n, size=(n_steps, 1))  # type: ignore[attr-defined]
    largest, total, n_different, others = 0, 0, 0, 0
    for action in actions:
        expected, rewards, dones, _ = stock.step(action)
        observed, rewards2, dones2, _ = native.step(action)
        # The newest frame: the others were it before
        difference = np.abs(expected[:, -1].astype(int) - observed[:, -1])
        largest = max(largest, int(difference.max()))
        total += int(difference.sum())
        n_different += int((difference > 0).sum())
        others += int(rewards[0] != rewards2[0] or dones[0] != dones2[0])
    n_pixels = n_steps * 84 * 84
    return largest, total / n_pixels, n_different / n_pixels, others


def shared_seed() -> int:
    """A seed of which ale-py's AtariEnv makes one that fits the C++ side, so that sticky actions are the same."""
    return next(seed for seed in range(100) if np.random.SeedSequence(seed).generate_state(2)[1] < 2**31)


if __name__ == "__main__":
    main()
