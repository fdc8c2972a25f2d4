"""Potential-based reward shaping: hints that can't change which policy is best.

A potential φ says how good a state looks. A step from s to s' gets gamma·φ(s') - φ(s) (Ng, Harada, Russell, 1999). The
discounted sum over an episode is the same whatever the agent does, so the best policy stays the best. This needs the
algorithm's own discount, and a potential of 0 where the episode terminates. If it is only truncated (time limit),
algorithms bootstrap, and the potential of the last state counts.
"""

import math
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import gymnasium as gym

from sb3_ext.common.arguments import read_number
from sb3_ext.wrappers.shaping.terms import RewardTerms, Step

__all__ = ["PotentialShaping"]

#: Methods of a subclass with this prefix are potentials
_PREFIX = "potential_"

Potential = Callable[[Any, dict[str, Any]], float]


class PotentialShaping(RewardTerms):
    """
    Adds gamma·φ(s') - φ(s) to the reward for each of its potentials φ.

    A subclass has a method ``potential_<name>(self, observation, info)`` for each potential. They can also be given as
    functions. A potential must depend on the state alone, not on the action or on chance.

    :param env: the environment
    :param terms: weights by name, as for :class:`RewardTerms`
    :param gamma: the discount of the algorithm. ``None`` waits for :meth:`set_discount`, which trainings of our
        algorithms call; until then nothing is added, with a warning
    :param potentials: more potentials by name; they take an observation and an info
    """

    def __init__(
        self,
        env: gym.Env,
        terms: Mapping[str, float] | None = None,
        gamma: float | None = None,
        potentials: Mapping[str, Potential] | None = None,
    ) -> None:
        names = [name for name in dir(type(self)) if name.startswith(_PREFIX)]
        self._potentials: dict[str, Potential] = {name[len(_PREFIX) :]: getattr(self, name) for name in names}
        self._potentials.update(potentials or {})
        self._gamma = None if gamma is None else _read_discount(gamma)
        self._gamma_was_given = gamma is not None
        self._has_warned = False
        super().__init__(env, terms, {name: partial(self._difference, name) for name in self._potentials})
        # The potential of the current state
        self._values = {name: 0.0 for name, _, _ in self._terms if name in self._potentials}

    def set_discount(self, gamma: float) -> None:
        """Set the discount of the algorithm, unless the constructor was given one."""
        gamma = _read_discount(gamma)
        if not self._gamma_was_given:
            self._gamma = gamma
        elif self._gamma is not None and not math.isclose(self._gamma, gamma):
            warnings.warn(
                f"{type(self).__name__} has gamma={self._gamma}, but the algorithm has {gamma}, so shaping may change "
                "which policy is best. Leave gamma out to use the algorithm's.",
                stacklevel=2,
            )
        if self.env.has_wrapper_attr("set_discount"):
            self.env.get_wrapper_attr("set_discount")(gamma)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        observation, info = super().reset(seed=seed, options=options)
        for name in self._values:
            self._values[name] = float(self._potentials[name](observation, info))
        return observation, info

    def _difference(self, name: str, step: Step) -> float:
        before = self._values[name]
        after = 0.0 if step.terminated else float(self._potentials[name](step.observation, step.info))
        self._values[name] = after
        if self._gamma is None:
            self._warn()
            return 0.0
        return self._gamma * after - before

    def _warn(self) -> None:
        if not self._has_warned:
            self._has_warned = True
            warnings.warn(
                f"{type(self).__name__} doesn't know the discount and adds nothing to the reward. For evaluation this "
                "is fine. For training set gamma, or call env.env_method('set_discount', model.gamma) before learn(); "
                "RL Zoo does so with our algorithms.",
                stacklevel=2,
            )


def _read_discount(raw: Any) -> float:
    gamma = read_number("gamma", raw)
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma={raw!r} must be the discount of the algorithm, from 0 to 1.")
    return gamma
