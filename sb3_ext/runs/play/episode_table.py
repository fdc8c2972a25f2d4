"""An episode step by step: what the agent saw, did, expected and got."""

from __future__ import annotations

import csv
import itertools
import math
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
import torch as th
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv, unwrap_vec_normalize
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs

from sb3_ext.common.returns import gae, reward_to_go
from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.play.labels import action_labels
from sb3_ext.runs.play.policy_probe import ActionDetails, Actor, PolicyProbe
from sb3_ext.wrappers.base import wrappers_of
from sb3_ext.wrappers.shaping.terms import RewardTerms

__all__ = ["MAX_NUMBERS", "Episode", "EpisodeTable", "Step", "Stopped", "frozen", "play_episode"]

#: Of observations with more numbers than this, a table has mean, std, min and max
MAX_NUMBERS = 16


@dataclass(frozen=True)
class EpisodeTable:
    """
    One row per step. The columns, in this order (without those that the environment or the policy doesn't have):

    - ``step``, starting at 0
    - ``obs…``: the observation before normalisation; up to 16 numbers, otherwise mean, std, min and max
    - ``action…``: as the environment got it; ``action_label``, if the actions have names
    - ``prob_…``, or ``mean_…`` and ``std_…``, or ``q_…``: output of the policy
    - ``log_prob``, ``entropy``
    - ``reward``: the environment's own; ``seen_reward``: what the algorithm learns from (shaped, clipped, normalised);
      ``term_…``: what each term of a reward shaper adds
    - ``value``: the critic's estimate, which is the baseline of REINFORCE
    - ``return``: discounted sum of ``reward`` from here to the end
    - ``advantage``: as the algorithm computes it, by GAE from ``seen_reward`` and ``value``
    - ``baseline_advantage``: the discounted sum of ``seen_reward`` minus ``value``, as REINFORCE with a baseline has
      it; at a time limit the sum goes on with the value of the last state
    - ``td_error``: ``seen_reward`` plus the discounted value of the next state, minus ``value``
    - ``terminated``, ``truncated``

    :param columns: values by name
    """

    columns: Mapping[str, np.ndarray]

    def __len__(self) -> int:
        return len(self.columns["step"])

    def __getitem__(self, name: str) -> np.ndarray:
        return self.columns[name]

    @property
    def score(self) -> float:
        """Sum of the environment's own rewards."""
        return float(self["reward"].sum())

    def to_csv(self, path: str | os.PathLike[str]) -> None:
        with atomic_write(path) as unfinished, unfinished.open("w", newline="", encoding="utf-8") as file:
            writer = csv.writer(file)
            writer.writerow(self.columns)
            writer.writerows(zip(*(column.tolist() for column in self.columns.values()), strict=True))

    @classmethod
    def from_csv(cls, path: str | os.PathLike[str]) -> EpisodeTable:
        """:return: what :meth:`to_csv` wrote"""
        import pandas as pd  # type: ignore[import-untyped]  # takes half a second

        frame = pd.read_csv(path, keep_default_na=False, na_values=["nan"], float_precision="round_trip")
        return cls({name: np.array(frame[name].tolist()) for name in frame})


class Stopped(Exception):
    """Raised by an actor that wants no more steps."""


def play_episode(
    model: BaseAlgorithm | Actor,
    env: gym.Env | VecEnv,
    *,
    deterministic: bool = True,
    seed: int | None = None,
    max_steps: int = 10_000,
    watch: Callable[[Step], None] = lambda step: None,
) -> EpisodeTable:
    """
    Play one episode and record each step. A lost life is not the end if a Monitor says so.

    :param model: a model of any SB3 algorithm, or another actor. An actor that raises :class:`Stopped` after the first
        step ends the episode
    :param env: an environment wrapped, stacked and normalised as in training. Of several, the first is recorded
    :param deterministic: take the most likely action
    :param seed: seed of the environment and the actions; torch's random state is restored afterwards
    :param max_steps: longer episodes are cut off
    :param watch: called after each step
    """
    vec_env = env if isinstance(env, VecEnv) else DummyVecEnv([lambda: env])
    with frozen(vec_env), th.random.fork_rng(devices=[], enabled=seed is not None):
        if seed is not None:
            vec_env.seed(seed)
            th.manual_seed(seed)
        actor = PolicyProbe(model, vec_env.num_envs, deterministic) if isinstance(model, BaseAlgorithm) else model
        episode = Episode(actor, vec_env)
        steps: list[Step] = []
        try:
            for step in itertools.islice(episode, max_steps):
                steps.append(step)
                watch(step)
        except Stopped:
            if not steps:
                raise
        return episode.table(steps)


class Step(NamedTuple):
    """A row of the table, without what is known only at the end of the episode."""

    row: dict[str, Any]
    #: Value of the state after the step; NaN stands for the next row's value
    next_value: float
    is_last: bool


class Episode:
    """
    Iterating over it plays an episode, one step at a time. The statistics of a normalised environment must be
    :func:`frozen`.

    :param max_numbers: of observations with more numbers, the table has mean, std, min and max
    """

    def __init__(self, actor: Actor, vec_env: VecEnv, max_numbers: int = MAX_NUMBERS) -> None:
        self._vec_env = vec_env
        self._actor = actor
        self._max_numbers = max_numbers
        self._vec_normalize = unwrap_vec_normalize(vec_env)
        self._has_masks = actor.uses_masks and is_masking_supported(vec_env)
        self._labels = action_labels(vec_env)
        self._monitored = vec_env.env_is_wrapped(Monitor, indices=0)[0]
        #: What the policy sees next, of all environments
        self.observations = vec_env.reset()
        self._raw_rewards = _RawRewards(vec_env)
        self._terms = _RewardTerms(vec_env)

    def __iter__(self) -> Iterator[Step]:
        for number in itertools.count():
            yield (step := self._step(number))
            if step.is_last:
                return

    def table(self, steps: list[Step]) -> EpisodeTable:
        """:param steps: all steps of the episode so far"""
        last_value = math.nan if steps[-1].is_last else self._actor.value(self.observations)
        return _make_table(steps, self._actor.gamma, self._actor.gae_lambda, last_value)

    def _step(self, number: int) -> Step:
        masks = get_action_masks(self._vec_env) if self._has_masks else None
        details = self._actor.act(self.observations, masks)
        row = {"step": number, **self._observation_columns(), **self._action_columns(details)}
        self.observations, rewards, dones, infos = self._vec_env.step(details.actions)
        done, info = bool(dones[0]), infos[0]
        truncated = done and bool(info.get("TimeLimit.truncated", False))
        row["reward"] = self._raw_rewards.of_step(float(rewards[0]))
        row["seen_reward"] = float(rewards[0])
        row |= self._terms.of_step()
        row["value"] = details.value
        row |= {"terminated": done and not truncated, "truncated": truncated}
        next_value = 0.0 if done else math.nan
        if truncated:
            next_value = self._actor.value(_with_first(self.observations, info["terminal_observation"]))
        self._actor.start_episodes(dones)
        return Step(row, next_value, is_last=done and ("episode" in info or not self._monitored))

    def _observation_columns(self) -> dict[str, Any]:
        observations = self.observations
        if self._vec_normalize is not None:
            observations = self._vec_normalize.get_original_obs()
        if not isinstance(observations, dict):
            return _summary("obs", observations[0], self._max_numbers)
        columns: dict[str, Any] = {}
        for key, value in observations.items():
            columns |= _summary(f"obs_{key}", value[0], self._max_numbers)
        return columns

    def _action_columns(self, details: ActionDetails) -> dict[str, Any]:
        action = details.actions[0]
        columns = _components("action", np.asarray(action))
        if self._labels:
            columns["action_label"] = self._labels[int(action)]
        return {**columns, **details.outputs, "log_prob": details.log_prob, "entropy": details.entropy}


def _make_table(steps: list[Step], gamma: float, gae_lambda: float, last_value: float) -> EpisodeTable:
    columns = {name: np.array([step.row[name] for step in steps]) for name in steps[0].row}
    values, ends = columns["value"], columns["terminated"] | columns["truncated"]
    next_values = np.where(ends, [step.next_value for step in steps], np.append(values[1:], last_value))
    seen = columns["seen_reward"]
    of_lambda = {
        "advantage": gae(seen, values, next_values, ends, gamma, gae_lambda),
        "baseline_advantage": gae(seen, values, next_values, ends, gamma, 1.0),
        "td_error": gae(seen, values, next_values, ends, gamma, 0.0),
    }
    no_ends = np.zeros(len(values))  # a lost life ends nothing for the score
    returns = reward_to_go(columns["reward"], no_ends, gamma)
    last = {name: columns.pop(name) for name in ("terminated", "truncated")}
    return EpisodeTable({**columns, "return": returns, **of_lambda, **last})


class _RawRewards:
    """The environment's own rewards, as Monitor saw them before other wrappers changed them."""

    def __init__(self, vec_env: VecEnv) -> None:
        self._vec_normalize = unwrap_vec_normalize(vec_env)
        base = vec_env.unwrapped
        layers = wrappers_of(base.envs[0]) if isinstance(base, DummyVecEnv) else []
        monitors = [layer for layer in layers if isinstance(layer, Monitor)]
        self._monitor = monitors[-1] if monitors else None
        self._follow()

    def _follow(self) -> None:
        # Monitor starts a new list with each episode: this one stays when the last step resets the environment
        self._rewards: list[float] = [] if self._monitor is None else self._monitor.rewards
        self._n_seen = len(self._rewards)

    def of_step(self, reward: float) -> float:
        if self._monitor is None:
            return reward if self._vec_normalize is None else float(self._vec_normalize.get_original_reward()[0])
        # Several, where frames are skipped outside of Monitor
        own = float(sum(self._rewards[self._n_seen :]))
        self._follow()
        return own


class _RewardTerms:
    """What each term of the reward shapers adds."""

    def __init__(self, vec_env: VecEnv) -> None:
        base = vec_env.unwrapped
        layers = wrappers_of(base.envs[0]) if isinstance(base, DummyVecEnv) else []
        self._shapers = [layer for layer in layers if isinstance(layer, RewardTerms)]
        self._follow()

    def _follow(self) -> None:
        # As with Monitor's rewards: a shaper starts new sums with each episode
        self._sums = [shaper.sums for shaper in self._shapers]
        self._seen = [dict(sums) for sums in self._sums]

    def of_step(self) -> dict[str, float]:
        terms: dict[str, float] = {}
        for sums, seen in zip(self._sums, self._seen, strict=True):
            for name, total in sums.items():
                terms[f"term_{name}"] = terms.get(f"term_{name}", 0.0) + total - seen[name]
        self._follow()
        return terms


@contextmanager
def frozen(vec_env: VecEnv) -> Iterator[None]:
    """Playing must not change the normalisation statistics."""
    vec_normalize = unwrap_vec_normalize(vec_env)
    if vec_normalize is None:
        yield
        return
    training, vec_normalize.training = vec_normalize.training, False
    try:
        yield
    finally:
        vec_normalize.training = training


def _with_first(observations: VecEnvObs, observation: Any) -> VecEnvObs:
    """Replace the observation of the first environment."""
    if isinstance(observations, dict):
        return {key: np.stack([observation[key], *value[1:]]) for key, value in observations.items()}
    return np.stack([observation, *observations[1:]])


def _summary(name: str, value: Any, max_numbers: int) -> dict[str, Any]:
    numbers = np.asarray(value)
    if numbers.size <= max_numbers:
        return _components(name, numbers)
    numbers = numbers.astype(np.float64)
    statistics = {"mean": numbers.mean(), "std": numbers.std(), "min": numbers.min(), "max": numbers.max()}
    return {f"{name}_{statistic}": float(number) for statistic, number in statistics.items()}


def _components(name: str, value: np.ndarray) -> dict[str, Any]:
    numbers = value.ravel().tolist()
    return {name: numbers[0]} if value.ndim == 0 else {f"{name}_{i}": number for i, number in enumerate(numbers)}
