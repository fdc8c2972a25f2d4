"""Reward shaping with named terms: the base of all shapers.

A term adds a number to the reward of a step. It has a name and a weight and is logged for every episode. Terms are
added outside Monitor: scores, thresholds and best models use the raw reward.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, SupportsFloat

import gymnasium as gym
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.monitor import Monitor

from sb3_ext.common.names import nearest
from sb3_ext.common.schedules.kinds import Schedule
from sb3_ext.common.schedules.parsing import parse_schedule
from sb3_ext.wrappers.base import EPISODE_KEY, Recorded, report

__all__ = ["RewardTerms", "Step"]

#: In ``terms``: the weight of the environment's reward
_REWARD = "reward"
#: Names of metrics, which a term can't have
_RESERVED = (_REWARD, "raw", "shaped")
#: Methods of a subclass with this prefix are terms
_PREFIX = "term_"


class Step(NamedTuple):
    """What a term is computed from."""

    #: Observation before the action
    previous: Any
    action: Any
    #: Observation after it
    observation: Any
    #: The environment's own reward, or that of an inner shaper
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class RewardTerms(gym.Wrapper, Recorded):
    """
    Adds named terms to the reward: ``reward + Σ weight · value``.

    A subclass has a method ``term_<name>(self, step)`` for each term, and may override :meth:`begin_episode`. Terms can
    also be given as functions. At the end of an episode, ``reward/<name>`` is a term's weighted sum, ``reward/raw`` the
    sum of the environment's own rewards, and ``reward/shaped`` what the agent got.

    SB3 wraps an environment without Monitor into one, which would count shaped rewards as the score. So such an
    environment gets a Monitor here, below the shaping.

    :param env: the environment
    :param terms: weights by name; terms that are not named are not computed. ``reward`` is the weight of the
        environment's own reward, 1 by default. A weight may be a schedule, such as ``lin_0.1``, which falls to 0 over
        training; the training tells how far it is, see :meth:`set_training_progress`
    :param functions: more terms by name; they take a :class:`Step`
    """

    #: Weights if ``terms`` is not given
    default_terms: ClassVar[Mapping[str, float]] = {}
    #: Classes of environments it is for; empty for all
    made_for: ClassVar[tuple[type[gym.Env], ...]] = ()

    def __init__(
        self,
        env: gym.Env,
        terms: Mapping[str, float] | None = None,
        functions: Mapping[str, Callable[[Step], float]] | None = None,
    ) -> None:
        super().__init__(env if is_wrapped(env, Monitor) else _RawMonitor(env))
        if self.made_for and not isinstance(env.unwrapped, self.made_for):
            classes = " or ".join(cls.__name__ for cls in self.made_for)
            raise ValueError(f"{type(self).__name__} is for {classes}, not for {env}.")
        methods = {name[len(_PREFIX) :]: getattr(self, name) for name in dir(type(self)) if name.startswith(_PREFIX)}
        known: dict[str, Callable[[Step], float]] = {**methods, **(functions or {})}
        for name in set(known) & set(_RESERVED):
            raise ValueError(f"{type(self).__name__}: a term can't be called {name!r}, the name of a metric.")
        self._schedules = self._read_weights(self.default_terms if terms is None else terms, list(known))
        self._functions = {name: known[name] for name in self._schedules if name != _REWARD}
        self._set_weights(0.0)
        self._previous: Any = None
        self._is_on = True
        self._start_sums()

    @property
    def sums(self) -> Mapping[str, float]:
        """What each term has added in this episode; a new mapping after each reset."""
        return self._sums

    def set_shaping(self, on: bool) -> None:
        """
        Switch the terms of this shaper and of those inside it on or off. RL Zoo's ``enjoy`` takes the sum of shaped
        rewards for the score, so it switches them off.
        """
        self._is_on = on
        if self.env.has_wrapper_attr("set_shaping"):
            self.env.get_wrapper_attr("set_shaping")(on)

    def set_training_progress(self, progress: float) -> None:
        """
        Weights with a schedule follow it, here and in shapers inside this one.

        :param progress: the completed share of training, from 0 to 1
        """
        self._set_weights(progress)
        if self.env.has_wrapper_attr("set_training_progress"):
            self.env.get_wrapper_attr("set_training_progress")(progress)

    def _set_weights(self, progress: float) -> None:
        weights = {name: schedule(1.0 - progress) for name, schedule in self._schedules.items()}
        self._reward_weight = weights.pop(_REWARD, 1.0)
        self._terms = [(name, weight, self._functions[name]) for name, weight in weights.items()]

    def begin_episode(self, observation: Any, info: dict[str, Any]) -> None:
        """Called with what each reset returns, for terms with a memory."""

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = self.env.reset(seed=seed, options=options)
        self._previous = observation
        self._start_sums()
        self.begin_episode(observation, info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self.env.step(action)
        raw = float(reward)
        if not self._is_on:
            return observation, raw, terminated, truncated, info
        step = Step(self._previous, action, observation, raw, terminated, truncated, info)
        shaped = self._reward_weight * raw
        for name, weight, function in self._terms:
            contribution = weight * float(function(step))
            if not math.isfinite(contribution):
                raise ValueError(
                    f"{type(self).__name__}: the term {name!r} is {contribution} at {observation}. "
                    "Rewards must be finite."
                )
            self._sums[name] += contribution
            shaped += contribution
        self._raw += raw
        self._shaped += shaped
        self._previous = observation
        if terminated or truncated:
            self._report(info)
        return observation, shaped, terminated, truncated, info

    def _start_sums(self) -> None:
        self._sums = dict.fromkeys((name for name, _, _ in self._terms), 0.0)
        self._raw = 0.0
        self._shaped = 0.0

    def _report(self, info: dict[str, Any]) -> None:
        # Inner shapers have reported already. Only they saw the raw reward; terms of the same name add up
        inner = info.get(EPISODE_KEY, {})
        numbers = {f"reward/{name}": total for name, total in self._sums.items()}
        numbers = {name: total + inner.get(name, 0.0) for name, total in numbers.items()}
        report(info, {"reward/raw": inner.get("reward/raw", self._raw), "reward/shaped": self._shaped, **numbers})

    def _read_weights(self, terms: Any, known: list[str]) -> dict[str, Schedule]:
        owner = type(self).__name__
        if not isinstance(terms, Mapping):
            example = known[0] if known else "height"
            raise ValueError(f"{owner}: terms={terms!r} must map names to weights, such as {{{example}: 0.5}}.")
        if not terms:
            raise ValueError(f"{owner} needs terms with weights: {', '.join(known) or 'it has none'}.")
        weights = {}
        for name, raw in terms.items():
            if name not in known and name != _REWARD:
                raise ValueError(f"{owner} has no term {name!r}: {nearest(str(name), [*known, _REWARD])}")
            weights[name] = _read_weight(f"{owner}: the weight of {name}", raw)
        return weights


def _read_weight(name: str, raw: Any) -> Schedule:
    schedule = parse_schedule(name, raw)
    if not isinstance(schedule, Schedule):
        raise ValueError(f"{name} is a function: write a number or a schedule, such as lin_0.1.")
    if any(position > 1 for position in schedule.positions):
        raise ValueError(f"{name} is {raw!r}: its positions must be shares of training, from 0 to 1, not timesteps.")
    return schedule


class _RawMonitor(Monitor, Recorded):
    """A Monitor that Gymnasium can make again from the environment's spec."""
