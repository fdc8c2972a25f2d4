"""``Bandit-v0``: arms to pull, each with its own mean reward.

The smallest problem that a policy can learn: an algorithm that fails here is broken, and a second is enough to see it.
With new arms in each episode and ``observe="last"`` it is a test of memory: explore first, then remember the best arm.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sb3_ext.common.arguments import read_number, read_whole
from sb3_ext.common.names import check_choice
from sb3_ext.envs.bandit_picture import BanditPicture
from sb3_ext.wrappers.base import report

__all__ = ["BanditEnv"]

DRAWS = ("never", "once", "reset")
OBSERVATIONS = ("constant", "last")


class BanditEnv(gym.Env[np.ndarray, np.int64]):
    """
    Pull one of the arms at each step; its reward is normally distributed.

    The observation is a constant by default. With ``observe="last"`` it is the last arm (one-hot) and its reward, zeros
    after a reset: what an agent with memory needs.

    A step's info has ``mean`` (of the arm that was pulled) and ``regret`` (how much more the best arm's mean is). The
    end of an episode is a truncation: nothing in the problem ends there.

    :param n_arms: number of arms; by default as many as ``means`` has, or 10
    :param means: mean reward of each arm; by default evenly from 0 (the first) to 1 (the last)
    :param stds: standard deviation of the reward, one for all arms or one for each
    :param length: steps of an episode
    :param draw: ``"never"``; ``"once"``: means from a standard normal distribution and ``draw_seed``, the same in all
        copies of the environment; ``"reset"``: new ones for each episode, from the environment's seed
    :param draw_seed: seed of the means that are drawn once
    :param observe: ``"constant"`` or ``"last"``
    :param render_mode: ``"rgb_array"``, ``"human"`` or ``None``
    """

    metadata = {"render_modes": ["human", "rgb_array"], "render_fps": 10}  # noqa: RUF012  as in Gymnasium

    def __init__(
        self,
        n_arms: int | None = None,
        means: Sequence[float] | None = None,
        stds: float | Sequence[float] = 0.5,
        length: int = 100,
        draw: str = "never",
        draw_seed: int = 0,
        observe: str = "constant",
        render_mode: str | None = None,
    ) -> None:
        check_choice("draw", draw, DRAWS)
        check_choice("observe", observe, OBSERVATIONS)
        if render_mode is not None:
            check_choice("render_mode", render_mode, self.metadata["render_modes"])
        if means is not None and draw != "never":
            raise ValueError(f"means={means!r} and draw={draw!r}: give one or the other.")
        if n_arms is None:
            n_arms = 10 if means is None else np.size(means)
        n_arms = read_whole("n_arms", n_arms, 2)
        self.length = read_whole("length", length, 1)
        self.means = np.linspace(0.0, 1.0, n_arms) if means is None else _read_arms("means", means, n_arms)
        self.stds = _read_arms("stds", stds, n_arms)
        if (self.stds < 0).any():
            raise ValueError(f"stds={stds!r} must not be negative.")
        if draw == "once":
            self.means = np.random.default_rng(draw_seed).normal(size=n_arms)
        self._draw = draw
        self._observe = observe
        self.action_space = spaces.Discrete(n_arms)
        if observe == "last":
            low, high = np.zeros(n_arms + 1, np.float32), np.ones(n_arms + 1, np.float32)
            low[-1], high[-1] = -np.inf, np.inf
            self.observation_space = spaces.Box(low, high, dtype=np.float32)
        else:
            self.observation_space = spaces.Box(0.0, 1.0, (1,), np.float32)
        self.render_mode = render_mode
        self._picture: BanditPicture | None = None
        self._begin()

    def _begin(self) -> None:
        self.pulls = np.zeros(self.means.size, dtype=np.int64)
        self.last_arm: int | None = None
        self.last_reward = 0.0
        self.total_reward = 0.0
        self.total_regret = 0.0

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        super().reset(seed=seed)
        if self._draw == "reset":
            self.means = self.np_random.normal(size=self.means.size)
        self._begin()
        if self.render_mode == "human":
            self.render()
        return self._observation(), {}

    def step(self, action: Any) -> tuple[np.ndarray, float, bool, bool, dict[str, Any]]:
        if not self.action_space.contains(action):
            raise ValueError(f"{action!r} is not an arm: they are numbered from 0 to {self.means.size - 1}.")
        arm = int(action)
        mean = float(self.means[arm])
        reward = float(self.np_random.normal(mean, self.stds[arm]))
        regret = float(self.means.max()) - mean
        self.pulls[arm] += 1
        self.last_arm, self.last_reward = arm, reward
        self.total_reward += reward
        self.total_regret += regret
        info: dict[str, Any] = {"mean": mean, "regret": regret}
        truncated = int(self.pulls.sum()) >= self.length
        if truncated:
            best_share = self.pulls[self.means.argmax()] / self.pulls.sum()
            report(info, {"env/regret": self.total_regret, "env/best_arm_share": best_share})
        if self.render_mode == "human":
            self.render()
        return self._observation(), reward, False, truncated, info

    def _observation(self) -> np.ndarray:
        if self._observe == "constant":
            return np.ones(1, np.float32)
        observation = np.zeros(self.means.size + 1, np.float32)
        if self.last_arm is not None:
            observation[self.last_arm] = 1.0
            observation[-1] = self.last_reward
        return observation

    def render(self) -> np.ndarray | None:
        if self.render_mode is None:
            gym.logger.warn('render() does nothing without a render_mode: gym.make("Bandit-v0", render_mode=...)')
            return None
        if self._picture is None:
            self._picture = BanditPicture()
        title = (
            f"step {self.pulls.sum()} of {self.length}    return {self.total_reward:.1f}    "
            f"regret {self.total_regret:.1f}"
        )
        self._picture.draw(self.means, self.stds, self.pulls, self.last_arm, self.last_reward, title)
        if self.render_mode == "rgb_array":
            return self._picture.pixels()
        self._picture.show(self.metadata["render_fps"])
        return None

    def close(self) -> None:
        if self._picture is not None:
            self._picture.close()
            self._picture = None

    def __getstate__(self) -> dict[str, Any]:
        # A window and fonts can't be pickled; they are made again when needed
        return {**vars(self), "_picture": None}


def _read_arms(option: str, written: Any, n_arms: int) -> np.ndarray:
    """One number for each arm, written as a list or as one for all."""
    is_list = isinstance(written, (Sequence, np.ndarray)) and not isinstance(written, str)
    numbers = np.array([read_number(option, number) for number in (written if is_list else [written] * n_arms)])
    if numbers.size != n_arms:
        raise ValueError(f"{option}={written!r} has {numbers.size} numbers for {n_arms} arms.")
    if not np.isfinite(numbers).all():
        raise ValueError(f"{option}={written!r} must be finite.")
    return numbers
