"""Rollout buffers that return whole episodes.

SB3 collects a fixed number of steps from each environment, which cuts episodes anywhere. Here the steps of an
unfinished episode wait, separate from the next rollout, until the episode ends: each step is returned exactly once,
with the return of its whole episode.
"""

from collections.abc import Generator
from typing import Any

import numpy as np
import torch as th
from stable_baselines3.common.buffers import DictRolloutBuffer, RolloutBuffer
from stable_baselines3.common.type_aliases import RolloutBufferSamples

from sb3_ext.common.returns import reward_to_go
from sb3_ext.fast.rollouts import DeferredValuesBuffer

__all__ = ["DictEpisodeBuffer", "EpisodeBuffer"]

#: One environment's steps in the order of time: the columns of a rollout by name.
Columns = dict[str, np.ndarray]

_OBS = "observations"


class EpisodeBuffer(DeferredValuesBuffer, RolloutBuffer):
    """
    :param max_episode_steps: longer episodes are returned in parts of at least this many steps, each bootstrapped from
        the value function; ``None`` waits for the end of every episode
    """

    def __init__(self, *args: Any, max_episode_steps: int | None = None, **kwargs: Any) -> None:
        self.max_episode_steps = max_episode_steps
        super().__init__(*args, **kwargs)
        self._waiting: list[Columns | None] = [None] * self.n_envs
        #: Value of the observation after the last rollout, for each environment
        self._values_after = np.zeros(self.n_envs, dtype=np.float32)
        self.n_episodes = 0

    @property
    def n_samples(self) -> int:
        """Steps that are ready for the update, after a rollout."""
        return len(self.returns)

    @property
    def n_waiting(self) -> int:
        """Steps that wait for the end of their episode."""
        return sum(len(columns["rewards"]) for columns in self._waiting if columns is not None)

    def state(self) -> Any:
        """Between rollouts: the steps of unfinished episodes."""
        return self._waiting, self._values_after

    def restore(self, state: Any) -> None:
        self._waiting, self._values_after = state

    def compute_returns_and_advantage(self, last_values: th.Tensor, dones: np.ndarray) -> None:
        """
        Replace the rollout's steps by those of the episodes that ended in it, and keep the rest for later.

        :param last_values: value of the observation after the rollout, for each environment
        :param dones: whether the rollout's last step ended an episode, for each environment
        """
        self._complete()
        # SB3 marks a step that starts an episode; the step before it ended one.
        ends = np.concatenate([self.episode_starts[1:], dones[None]]).astype(bool)
        self._end_abandoned_episodes()
        self._values_after = last_values.detach().cpu().numpy().flatten()
        ready = [self._take_ready(env, ends[:, env]) for env in range(self.n_envs)]
        self.n_episodes = int(sum(columns["ends"].sum() for columns in ready))
        self._set_columns({name: np.concatenate([columns[name] for columns in ready]) for name in ready[0]})
        self.advantages = self.returns.copy()

    def _end_abandoned_episodes(self) -> None:
        """Someone reset the environments between two rollouts: the waiting episodes will never continue."""
        for env, waiting in enumerate(self._waiting):
            if waiting is not None and len(waiting["ends"]) > 0 and self.episode_starts[0, env]:
                self._end_with_bootstrap(waiting, env)

    def _end_with_bootstrap(self, columns: Columns, env: int) -> None:
        columns["ends"][-1] = True
        columns["rewards"][-1] += self.gamma * self._values_after[env]

    def _take_ready(self, env: int, ends: np.ndarray) -> Columns:
        """Join the waiting and the new steps of an environment, and split them after the last end of an episode."""
        columns = {**self._get_columns(env), "ends": ends}
        waiting = self._waiting[env]
        if waiting is not None:
            columns = {name: np.concatenate([waiting[name], columns[name]]) for name in columns}
        length = len(columns["rewards"])
        n_ready = length - int(np.argmax(columns["ends"][::-1])) if columns["ends"].any() else 0
        if self.max_episode_steps is not None and length - n_ready >= self.max_episode_steps:
            n_ready = length
            self._end_with_bootstrap(columns, env)
        # Copies, so that a few waiting steps don't keep a whole rollout in memory
        self._waiting[env] = {name: column[n_ready:].copy() for name, column in columns.items()}
        ready = {name: column[:n_ready] for name, column in columns.items()}
        ready["returns"] = reward_to_go(ready["rewards"], ready["ends"], self.gamma).astype(np.float32)
        return ready

    def get(self, batch_size: int | None = None) -> Generator[RolloutBufferSamples, None, None]:
        """
        :param batch_size: approximate size of the minibatches, which differ by at most one sample; ``None``: all
            samples
        :return: the ready steps in random order, each in exactly one minibatch
        """
        bounds = self.minibatch_bounds(batch_size)
        for indices in np.split(np.random.permutation(self.n_samples), bounds[1:-1]):
            yield self._get_samples(indices)

    def minibatch_bounds(self, batch_size: int | None) -> np.ndarray:
        """:return: where the minibatches begin, and the end of the last one"""
        n_batches = 1 if batch_size is None else max(1, round(self.n_samples / batch_size))
        # The first ones have one sample more where it does not divide evenly
        size, rest = divmod(self.n_samples, n_batches)
        return np.arange(n_batches + 1) * size + np.minimum(np.arange(n_batches + 1), rest)

    def _get_columns(self, env: int) -> Columns:
        columns = {name: getattr(self, name)[:, env] for name in ("actions", "rewards", "values", "log_probs")}
        return {**columns, _OBS: self.observations[:, env]}

    def _set_columns(self, columns: Columns) -> None:
        for name in ("actions", "rewards", "values", "log_probs", "returns", _OBS):
            setattr(self, name, columns[name])


class DictEpisodeBuffer(EpisodeBuffer, DictRolloutBuffer):  # type: ignore[misc]
    """For Dict observations: one column for each of their keys."""

    observations: dict[str, np.ndarray]

    def _get_columns(self, env: int) -> Columns:
        columns = {name: getattr(self, name)[:, env] for name in ("actions", "rewards", "values", "log_probs")}
        return {**columns, **{f"{_OBS}/{key}": obs[:, env] for key, obs in self.observations.items()}}

    def _set_columns(self, columns: Columns) -> None:
        observations = {key: columns[f"{_OBS}/{key}"] for key in self.observations}
        super()._set_columns({**columns, _OBS: observations})  # type: ignore[dict-item]
