"""Plays an agent's episodes and gives their scores: the raw rewards of the environment, as Monitor reports them."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.type_aliases import PolicyPredictor
from stable_baselines3.common.vec_env import VecEnv, VecMonitor, is_vecenv_wrapped

from sb3_ext.common.algorithm import ExtAlgorithm

__all__ = ["Scores", "play"]


@dataclass(frozen=True)
class Scores:
    """
    Of the episodes that were played, in the order in which they ended.

    :param rewards: sum of the raw rewards of each
    :param lengths: steps of each
    :param successes: of those that say whether they were one (``is_success`` in the info)
    :param seconds: how long it took
    """

    rewards: tuple[float, ...]
    lengths: tuple[int, ...]
    successes: tuple[bool, ...] = ()
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        """Mean reward."""
        return float(np.mean(self.rewards))

    @property
    def std(self) -> float:
        """Standard deviation of the reward over the episodes."""
        return float(np.std(self.rewards))

    @property
    def mean_length(self) -> float:
        """Mean number of steps."""
        return float(np.mean(self.lengths))

    @property
    def success_rate(self) -> float | None:
        """Share of successes; ``None`` where episodes don't say."""
        return float(np.mean(self.successes)) if self.successes else None


def play(
    agent: PolicyPredictor,
    env: VecEnv,
    *,
    episodes: int | None = None,
    steps: int | None = None,
    deterministic: bool = True,
    use_masks: bool | None = None,
    render: bool = False,
    warn: bool = True,
) -> Scores:
    """
    Play episodes from their start to their end, without a preference for short ones: which episodes count is decided
    before they begin.

    With ``episodes``, each environment plays its share of them. With ``steps``, each environment plays its share of the
    steps, and an episode that has begun by then is played to its end and counts. (It would be wrong to leave it out:
    long episodes are more often cut off. With few episodes in an environment's share, the mean leans a little to the
    last one, the long one; with several episodes it makes no difference.)

    :param agent: a model or a policy; one with a memory gets it back at each step
    :param env: environments; they are reset first
    :param episodes: how many episodes to play
    :param steps: how many steps to play, of all environments together; one of ``episodes`` and ``steps`` is needed
    :param deterministic: whether the agent takes its most likely action, or one by chance as in training
    :param use_masks: whether to tell the agent which actions are possible; by default, when it is a ``MaskablePPO`` and
        the environments know
    :param render: show the environments
    :param warn: warn when the environments are in no Monitor
    :return: what the episodes gave
    """
    count = _Count(env.num_envs, episodes, steps)
    report = _Report(env, warn)
    if use_masks is None:
        use_masks = isinstance(agent, MaskablePPO) and is_masking_supported(env)
    start = time.perf_counter()
    observations = _reset(env)
    states: Any = None
    starts = np.ones(env.num_envs, dtype=bool)
    with agent.predicting_fast() if isinstance(agent, ExtAlgorithm) else nullcontext():
        while count.goes_on:
            masks = {"action_masks": get_action_masks(env)} if use_masks else {}
            actions, states = agent.predict(observations, states, starts, deterministic, **masks)
            observations, rewards, starts, infos = env.step(actions)
            report.add_step(rewards)
            count.add_step()
            for index in starts.nonzero()[0].tolist():
                if report.is_over(infos[index]):
                    report.end(index, infos[index], counts=count.end(index))
            if render:
                env.render()
    return report.scores(time.perf_counter() - start)


class _Count:
    """
    Which environments play an episode that counts.

    :param n_envs: number of environments
    :param episodes: how many episodes count
    :param steps: episodes that begin before so many steps are over count
    """

    def __init__(self, n_envs: int, episodes: int | None, steps: int | None) -> None:
        given = episodes if steps is None else steps
        if (episodes is None) == (steps is None) or given is None or given < 1:
            raise ValueError(f"episodes={episodes}, steps={steps}: one of them must be given, and be 1 or more.")
        self._steps = 0
        self._is_open: Callable[[int], bool]
        if episodes is not None:
            # As evenly as SB3 does it
            self._left = [(episodes + index) // n_envs for index in range(n_envs)]
            self._is_open = lambda index: self._left[index] > 0
        else:
            share = -(-given // n_envs)
            self._left = [0] * n_envs
            self._is_open = lambda index: self._steps < share
        self._counting = [self._is_open(index) for index in range(n_envs)]

    @property
    def goes_on(self) -> bool:
        """Whether there is an episode that counts."""
        return any(self._counting)

    def add_step(self) -> None:
        """Each environment has made one."""
        self._steps += 1

    def end(self, index: int) -> bool:
        """
        :param index: environment whose episode is over
        :return: whether that one counts
        """
        counted = self._counting[index]
        self._left[index] -= 1
        self._counting[index] = counted and self._is_open(index)
        return counted


class _Report:
    """
    Gathers what episodes gave.

    :param env: environments
    :param warn: warn when they are in no Monitor
    """

    def __init__(self, env: VecEnv, warn: bool) -> None:
        self._is_monitored = is_vecenv_wrapped(env, VecMonitor) or env.env_is_wrapped(Monitor)[0]
        if warn and not self._is_monitored:
            warnings.warn(
                "The evaluation environments are in no Monitor: scores are the rewards that come out of all wrappers, "
                "shaped or normalised, and not the environment's own. Wrap each in a Monitor first.",
                stacklevel=3,
            )
        self._rewards = np.zeros(env.num_envs)
        self._lengths = np.zeros(env.num_envs, dtype=int)
        self._episodes: list[tuple[float, int]] = []
        self._successes: list[bool] = []

    def add_step(self, rewards: np.ndarray) -> None:
        self._rewards += rewards
        self._lengths += 1

    def is_over(self, info: dict[str, Any]) -> bool:
        """Wrappers for Atari say that an episode is over when a life is lost; a Monitor knows better."""
        return not self._is_monitored or "episode" in info

    def end(self, index: int, info: dict[str, Any], counts: bool) -> None:
        if counts:
            own = {"r": self._rewards[index], "l": self._lengths[index]}
            episode = info["episode"] if self._is_monitored else own
            self._episodes.append((float(episode["r"]), int(episode["l"])))
            if info.get("is_success") is not None:
                self._successes.append(bool(info["is_success"]))
        self._rewards[index] = 0.0
        self._lengths[index] = 0

    def scores(self, seconds: float) -> Scores:
        rewards, lengths = zip(*self._episodes, strict=True)
        return Scores(rewards, lengths, tuple(self._successes), seconds)


def _reset(env: VecEnv) -> Any:
    """Where SB3's wrapper for Atari ends episodes at a lost life, its reset goes on with the game of another agent."""
    if env.has_attr("was_real_done"):
        env.env_method("set_wrapper_attr", "was_real_done", True)
    return env.reset()
