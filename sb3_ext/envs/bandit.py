"""``Bandit-v0``: arms to pull, each with its own mean reward.

The smallest problem that a policy can learn: an algorithm that fails here is broken, and one second shows it. With new
arms in each episode and ``observe="last"`` it tests memory: explore first, then remember the best arm.
"""

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

from sb3_ext.common.arguments import read_number, read_whole
from sb3_ext.common.names import check_choice
from sb3_ext.envs.bandit_picture import draw_bandit
from sb3_ext.wrappers.base import report

__all__ = ["BanditEnv"]


class BanditEnv(gym.Env[np.ndarray, np.int64]):
    """
    Pull one of the arms at each step; its reward is normally distributed.

    The observation is a constant by default. With ``observe="last"`` it is the last arm (one-hot) and its reward, or
    zeros after a reset.

    A step's info has the ``mean`` of the arm and the ``regret``: the best arm's mean minus this one's. Episodes end by
    truncation, since nothing in the problem ends there.

    :param n_arms: number of arms; by default as many as ``means`` has, or 10
    :param means: mean reward of each arm; by default evenly from 0 (the first) to 1 (the last)
    :param stds: standard deviation of the reward, one for all arms or one for each
    :param length: steps of an episode
    :param draw: ``"never"``; ``"once"``: means from a standard normal distribution and ``draw_seed``, the same in all
        copies of the environment; ``"reset"``: new ones for each episode, from the environment's seed
    :param draw_seed: seed of the means that are drawn once
    :param observe: ``"constant"`` or ``"last"``
    :param render_mode: ``"rgb_array"`` or ``None``; ``gym.make`` also takes ``"human"`` and opens a window
    """

    # Gymnasium opens a window for "human"
    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  as in Gymnasium

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
        check_choice("draw", draw, ("never", "once", "reset"))
        check_choice("observe", observe, ("constant", "last"))
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
        title = (
            f"step {self.pulls.sum()} of {self.length}    return {self.total_reward:.1f}    "
            f"regret {self.total_regret:.1f}"
        )
        return draw_bandit(self.means, self.stds, self.pulls, self.last_arm, self.last_reward, title)


def _read_arms(option: str, raw: Any, n_arms: int) -> np.ndarray:
    """One number for each arm, as a list or as one for all."""
    is_list = isinstance(raw, (Sequence, np.ndarray)) and not isinstance(raw, str)
    numbers = np.array([read_number(option, number) for number in (raw if is_list else [raw] * n_arms)])
    if numbers.size != n_arms:
        raise ValueError(f"{option}={raw!r} has {numbers.size} numbers for {n_arms} arms.")
    if not np.isfinite(numbers).all():
        raise ValueError(f"{option}={raw!r} must be finite.")
    return numbers
