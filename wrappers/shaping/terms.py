"""Reward shaping with named terms: the base of all shapers.

A term is a number that a step is worth beside the environment's reward. Each has a name and a weight, is logged for
every episode, and is added outside Monitor: scores, thresholds and best models stay those of the raw reward.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self, SupportsFloat

import gymnasium as gym
from gymnasium.utils import RecordConstructorArgs
from stable_baselines3.common.env_util import is_wrapped
from stable_baselines3.common.monitor import Monitor

from sb3_ext.common.arguments import read_number
from sb3_ext.common.names import check_keywords, nearest
from sb3_ext.wrappers.base import EPISODE_KEY, report

__all__ = ["RewardTerms", "Step"]

#: The name under which ``terms`` has the weight of the reward that comes from below
_REWARD = "reward"
#: Names of metrics: a term with one of them would be mistaken for it
_RESERVED = (_REWARD, "raw", "shaped")
#: Methods of a subclass that start so are terms
_PREFIX = "term_"


class Step(NamedTuple):
    """What a term is computed from."""

    #: Observation before the action
    previous: Any
    action: Any
    #: Observation after it
    observation: Any
    #: The environment's own reward, or what a shaper further in made of it
    reward: float
    terminated: bool
    truncated: bool
    info: dict[str, Any]


class RewardTerms(gym.Wrapper, RecordConstructorArgs):
    """
    Adds named terms to the reward: ``reward + Σ weight · value``.

    A subclass has a method ``term_<name>(self, step)`` for each term it knows, and may override :meth:`begin_episode`.
    Terms can also be given as functions, without a subclass. At the end of an episode, ``reward/<name>`` is a term's
    sum over the episode with its weight, ``reward/raw`` the sum of the environment's own rewards, and
    ``reward/shaped`` what the agent got.

    SB3 wraps an environment that has no Monitor into one, which would take shaped rewards for the score. So an
    environment without Monitor gets one here, below the shaping.

    :param env: the environment
    :param terms: weights by name; a term that is not named is not computed. ``reward`` is the weight of the
        environment's own reward, 1 by default
    :param functions: terms by name, beside the methods; they take a :class:`Step`
    """

    #: Weights where ``terms`` is not given
    default_terms: ClassVar[Mapping[str, float]] = {}
    #: Classes of environments it is for; none: for all
    made_for: ClassVar[tuple[type[gym.Env], ...]] = ()

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        # Here and not in each subclass: arguments are checked, and kept for the spec
        self = super().__new__(cls)
        parameters = inspect.signature(cls.__init__).parameters
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters.values()):
            check_keywords(cls.__name__, kwargs, parameters)
        given = {**dict(zip(list(parameters)[1:], args, strict=False)), **kwargs}
        if given:  # copies are made without
            RecordConstructorArgs.__init__(self, **{name: value for name, value in given.items() if name != "env"})
        return self

    def __init__(
        self,
        env: gym.Env,
        terms: Mapping[str, float] | None = None,
        functions: Mapping[str, Callable[[Step], float]] | None = None,
    ) -> None:
        gym.Wrapper.__init__(self, env if is_wrapped(env, Monitor) else _RawMonitor(env))
        if self.made_for and not isinstance(env.unwrapped, self.made_for):
            classes = " or ".join(cls.__name__ for cls in self.made_for)
            raise ValueError(f"{type(self).__name__} is for {classes}, and can't shape the rewards of {env}.")
        methods = {name[len(_PREFIX) :]: getattr(self, name) for name in dir(type(self)) if name.startswith(_PREFIX)}
        known: dict[str, Callable[[Step], float]] = {**methods, **(functions or {})}
        for name in set(known) & set(_RESERVED):
            raise ValueError(f"{type(self).__name__}: a term can't be called {name!r}, which is a metric's name.")
        weights = self._read_weights(self.default_terms if terms is None else terms, list(known))
        self._reward_weight = weights.pop(_REWARD, 1.0)
        self._terms = [(name, weight, known[name]) for name, weight in weights.items()]
        self._previous: Any = None
        self._is_on = True
        self._start_sums()

    def set_shaping(self, on: bool) -> None:
        """
        Switch the terms of this shaper and of those further in on or off. RL Zoo's ``enjoy`` adds up the rewards that
        come out of the wrappers and calls that the score, so it gets them off.

        :param on: whether rewards are shaped
        """
        self._is_on = on
        if self.env.has_wrapper_attr("set_shaping"):
            self.env.get_wrapper_attr("set_shaping")(on)

    def begin_episode(self, observation: Any, info: dict[str, Any]) -> None:
        """
        Called after each reset; for terms that keep something over an episode.

        :param observation: the first observation
        :param info: the reset's info
        """

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
                    "A reward that is not a number would end the training's."
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
        # Shapers further in have reported already: only they saw the raw reward, and equal terms add up
        inner = info.get(EPISODE_KEY, {})
        numbers = {f"reward/{name}": total for name, total in self._sums.items()}
        numbers = {name: total + inner.get(name, 0.0) for name, total in numbers.items()}
        report(info, {"reward/raw": inner.get("reward/raw", self._raw), "reward/shaped": self._shaped, **numbers})

    def _read_weights(self, terms: Any, known: list[str]) -> dict[str, float]:
        owner = type(self).__name__
        if not isinstance(terms, Mapping):
            example = known[0] if known else "height"
            raise ValueError(f"{owner}: terms={terms!r} must be names with weights, such as {{{example}: 0.5}}.")
        if not terms:
            raise ValueError(f"{owner} needs terms, with a weight for each: {', '.join(known) or 'it knows none'}.")
        weights = {}
        for name, written in terms.items():
            if name not in known and name != _REWARD:
                raise ValueError(f"{owner} has no term {name!r}: {nearest(str(name), [*known, _REWARD])}")
            weights[name] = read_number(f"{owner}: the weight of {name}", written)
            if not math.isfinite(weights[name]):
                raise ValueError(f"{owner}: the weight of {name} is {written!r}, and must be finite.")
        return weights


class _RawMonitor(Monitor, RecordConstructorArgs):
    """A Monitor that Gymnasium can make again from the environment's spec."""

    def __init__(self, env: gym.Env) -> None:
        RecordConstructorArgs.__init__(self)
        Monitor.__init__(self, env)
