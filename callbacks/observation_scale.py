"""Warns if observations are far from unit scale and not normalised."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from typing import Any, ClassVar, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback

from sb3_ext.common.stateful import Stateful
from sb3_ext.wrappers.static_normalization import ScaleObservations, is_vector

__all__ = ["WarnObservationScale", "unnormalized_keys"]

#: An entry is large if its root mean square is above this. Pendulum's speed (within ±8) and Acrobot's (within ±28, but
#: rarely beyond 6) are learned without scaling; positions in pixels or percent, torques and forces are not.
_LARGE = 10.0
#: An entry is small if it changes but never gets this far from zero, like MountainCar's velocity (0.02 in random play,
#: at most 0.07). An untrained network hardly sees it next to the position, and all tuned on-policy configs for
#: MountainCar normalise. This compares the largest value, not the spread, or LunarLander's rare contacts would count.
_SMALL = 0.05
#: Enough observations and steps to leave the initial states
_N_OBSERVATIONS, _N_STEPS = 1000, 256

_WRAPPERS: tuple[type[gym.Wrapper], ...] = (
    ScaleObservations,
    gym.wrappers.NormalizeObservation,
    gym.wrappers.RescaleObservation,
)


class WarnObservationScale(Stateful, BaseCallback):
    """
    Checks the first observations of a training, and warns once if an entry is far from unit scale: above 10 (root mean
    square), or changing but below 0.05.

    It skips images, and whatever ``VecNormalize``, a scaling wrapper or a layer of the policy normalises.
    """

    state_names: ClassVar[tuple[str, ...]] = ("n_calls", "_parts")

    def __init__(self, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._parts: dict[str | None, _Moments] | None = None

    def _on_training_start(self) -> None:
        if self._parts is None:
            self._parts = {key: _Moments() for key in unnormalized_keys(self.model)}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        if not state["_parts"]:
            self._parts = {}  # they have been judged

    def _on_step(self) -> bool:
        observations: Any = self.model._last_obs
        if not self._parts or observations is None:
            return True
        for key, moments in self._parts.items():
            moments.add(observations if key is None else observations[key])
        if self.n_calls >= max(_N_STEPS, _N_OBSERVATIONS / self.training_env.num_envs):
            self._judge(self._parts)
            self._parts = {}
        return True

    def _judge(self, parts: dict[str | None, _Moments]) -> None:
        large = [finding for key, moments in parts.items() for finding in moments.large(key)]
        small = [finding for key, moments in parts.items() for finding in moments.small(key)]
        findings = large or small
        if not findings:
            return
        worst = max(findings, key=lambda finding: finding.severity)
        others = len(findings) - 1
        more = f", and {others} more {'is' if others == 1 else 'are'} like it" if others else ""
        warnings.warn(
            f"Observation {worst.name} was between {worst.low:.3g} and {worst.high:.3g} in the first steps{more}: far "
            "from unit scale, and nothing normalises it, which makes learning slow or unstable. Add "
            "`normalize: true` to the section in the hyperparameter file (VecNormalize), or, if you know the bounds, "
            "`env_wrapper: [{sb3_ext.wrappers.ScaleObservations: {low: …, high: …}}]`.",
            stacklevel=2,
        )


def unnormalized_keys(model: BaseAlgorithm) -> list[str | None]:
    """The vectors in the observation that nothing normalises; ``None`` for all of it."""
    env, vec_normalize = model.get_env(), model.get_vec_normalize_env()
    assert env is not None
    # Normalising layers have it in their names: BatchNorm1d, LayerNorm, our NormalizedMlp, …
    if any("norm" in type(layer).__name__.lower() for layer in model.policy.modules()):
        return []
    if any(all(env.env_is_wrapped(wrapper)) for wrapper in _WRAPPERS):
        return []
    if vec_normalize is not None and not vec_normalize.norm_obs:
        vec_normalize = None  # it normalises rewards only
    space = env.observation_space
    if isinstance(space, spaces.Dict):
        normalized = [] if vec_normalize is None else vec_normalize.norm_obs_keys or []
        return [key for key, part in space.items() if key not in normalized and is_vector(part)]
    return [None] if vec_normalize is None and is_vector(space) else []


class _Finding(NamedTuple):
    severity: float
    name: str
    low: float
    high: float


class _Moments(Stateful):
    """Running extremes and squares of the observations."""

    state_names: ClassVar[tuple[str, ...]] = ("_n", "_low", "_high", "_squares")

    def __init__(self) -> None:
        self._n = 0
        self._low = self._high = self._squares = np.zeros(())

    def add(self, observations: np.ndarray) -> None:
        batch = np.asarray(observations, np.float64)
        low, high, squares = batch.min(0), batch.max(0), np.square(batch).sum(0)
        self._low = np.minimum(self._low, low) if self._n else low
        self._high = np.maximum(self._high, high) if self._n else high
        self._squares = self._squares + squares
        self._n += len(batch)

    def large(self, key: str | None) -> Iterator[_Finding]:
        size = np.sqrt(self._squares / self._n)
        return self._findings(key, size > _LARGE, size)

    def small(self, key: str | None) -> Iterator[_Finding]:
        largest = np.maximum(np.abs(self._low), np.abs(self._high))
        return self._findings(key, (self._low < self._high) & (largest < _SMALL), -largest)

    def _findings(self, key: str | None, is_far: np.ndarray, severity: np.ndarray) -> Iterator[_Finding]:
        for index in map(tuple, np.argwhere(is_far)):
            name = ", ".join(str(int(i)) for i in index)
            name = name if key is None else f"{key!r}, {name},"
            yield _Finding(float(severity[index]), name, float(self._low[index]), float(self._high[index]))
