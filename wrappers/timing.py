"""The length of episodes, and how long an action lasts."""

import warnings
from typing import Any, SupportsFloat

import gymnasium as gym
from stable_baselines3.common.atari_wrappers import MaxAndSkipEnv

from sb3_ext.common.arguments import read_whole
from sb3_ext.common.names import checked_keywords
from sb3_ext.wrappers.base import SeededWrapper, insert_below_monitor, wrappers_of

__all__ = ["FrameSkip", "time_limit"]

#: Gymnasium's class, even if RL Zoo has replaced it with a subclass
_TimeLimit: type[gym.Wrapper] = next(
    cls for cls in gym.wrappers.TimeLimit.__mro__ if cls.__module__.startswith("gymnasium.")
)


@checked_keywords
def time_limit(env: gym.Env, max_episode_steps: int) -> gym.Env:
    """
    Truncate episodes after a number of the environment's steps, below a Monitor, so that it reports these episodes.

    Replaces existing limits, such as that of ``gym.make``, so it can also be longer. A limit inside the environment
    stays.

    :param env: the environment
    :param max_episode_steps: number of steps
    :return: the environment, changed in place if it has a Monitor
    """
    limit = read_whole("max_episode_steps", max_episode_steps, at_least=1)
    while isinstance(env, _TimeLimit):
        env = env.env
    for layer in wrappers_of(env):
        while isinstance(layer.env, _TimeLimit):
            layer.env = layer.env.env
        # It contains the old limit
        layer._cached_spec = None
    return insert_below_monitor(env, lambda inner: gym.wrappers.TimeLimit(inner, limit))


class FrameSkip(SeededWrapper):
    """
    Repeats each action for some steps of the environment, and returns the sum of their rewards and the last
    observation.

    An episode may end in between. A Monitor below sees every step: the score is right, and the length counts the
    environment's steps.

    :param env: the environment
    :param skip: number of steps; a list of two for a random number between them, both included
    """

    def __init__(self, env: gym.Env, skip: int | list[int] = 4) -> None:
        super().__init__(env)
        bounds = skip if isinstance(skip, (list, tuple)) else [skip, skip]
        if len(bounds) != 2:
            raise ValueError(f"skip={skip!r} must be a number of steps, or a list of two: lowest and highest.")
        self._least, self._most = (read_whole("skip", bound, at_least=1) for bound in bounds)
        if self._least > self._most:
            raise ValueError(f"skip={skip!r}: the lower number comes first.")
        _warn_double_skip(env)

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        steps = self._least
        if self._most > self._least:
            steps = int(self._random.integers(self._least, self._most + 1))
        total = 0.0
        for _ in range(steps):
            observation, reward, terminated, truncated, info = self.env.step(action)
            total += float(reward)
            if terminated or truncated:
                break
        return observation, total, terminated, truncated, info


def _warn_double_skip(env: gym.Env) -> None:
    spec = env.unwrapped.spec
    own_skip = 1 if spec is None else spec.kwargs.get("frameskip", 1)
    below = [type(layer).__name__ for layer in wrappers_of(env) if isinstance(layer, (MaxAndSkipEnv, FrameSkip))]
    if own_skip != 1 or below:
        who = below[0] if below else f"{spec.id} (frameskip={own_skip})" if spec else ""
        warnings.warn(
            f"{who} skips frames and FrameSkip skips again, so their numbers multiply: keep one of them.",
            stacklevel=3,
        )
