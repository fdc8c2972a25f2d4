"""Domain randomisation: parameters of an environment that are drawn for each episode.

An agent trained with many gravities, winds and masses copes with unseen ones.
"""

import zlib
from collections.abc import Mapping
from typing import Any, ClassVar, SupportsFloat

import gymnasium as gym
import numpy as np

from sb3_ext.common.names import check_keywords
from sb3_ext.wrappers.base import Recorded, report
from sb3_ext.wrappers.randomization.attribute_path import AttributePath
from sb3_ext.wrappers.randomization.distributions import Distribution, Range, parse_distribution

__all__ = ["DomainRandomization", "NamedRandomization"]

_STREAM = zlib.crc32(b"domain randomisation")


class DomainRandomization(gym.Wrapper, Recorded):
    """
    Draws parameters at each reset, before the environment is reset.

    They are in ``info["parameters"]`` of each reset and step, and logged as ``env/<name>`` at the end of an episode.
    Each parameter has its own random numbers, from the seed and its name: adding or fixing others doesn't change them.

    :param env: the environment
    :param parameters: a distribution for each attribute (``gravity``, ``unwrapped.model.opt.gravity.2``), see
        ``distributions.py``
    """

    def __init__(self, env: gym.Env, parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__(env)
        #: What to draw from, by name
        self.parameters: dict[str, Distribution] = {}
        #: From 0 to 1. The default is the end of training, for playing and evaluation
        self.training_progress = 1.0
        # Original values of all parameters that were ever changed
        self._originals: dict[str, Any] = {}
        self._forced: dict[str, Any] = {}
        self._values: dict[str, Any] = {}
        self._entropy: Any = None
        self._generators: dict[str, np.random.Generator] = {}
        self._paths: dict[str, AttributePath] = {}
        self.set_parameters(parameters or {})

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Draw these from the next reset on. Parameters that are no longer named get their original value."""
        if not isinstance(parameters, Mapping):
            raise ValueError(f"parameters: {parameters!r} must map names to distributions, as in gravity: 9.8.")
        parsed = {}
        for name, raw in parameters.items():
            allowed = self._find(name)
            parsed[name] = parse_distribution(name, raw)
            if allowed is not None:
                parsed[name].check(name, allowed)
        self.parameters = parsed

    def force_parameters(self, values: Mapping[str, Any] | None) -> None:
        """
        Use these values from the next reset on instead of drawing them.

        :param values: of some parameters; ``None`` draws all of them again
        """
        self._forced = self._checked(values or {})

    def set_training_progress(self, progress: float) -> None:
        """:param progress: the completed share of training, from 0 to 1; schedules follow it from the next reset on"""
        if not 0 <= progress <= 1:
            raise ValueError(f"progress={progress!r} must be a share of training, from 0 to 1.")
        self.training_progress = float(progress)
        if self.env.has_wrapper_attr("set_training_progress"):
            self.env.get_wrapper_attr("set_training_progress")(progress)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """:param options: ``{"parameters": {...}}`` sets values for this episode; the rest is for the environment"""
        forced = self._forced
        if options is not None and "parameters" in options:
            forced = {**forced, **self._checked(options["parameters"])}
            options = {key: value for key, value in options.items() if key != "parameters"} or None
        if seed is not None or self._entropy is None:
            self._entropy = np.random.SeedSequence(seed).entropy
            self._generators = {}
        drawn = {name: self._draw(name, distribution) for name, distribution in self.parameters.items()}
        self._values = {**self._originals, **drawn, **forced}
        self._write(self._values)
        observation, info = self._reset_env(seed, options)
        self._tell(info)
        return observation, info

    def step(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        observation, reward, terminated, truncated, info = self._step_env(action)
        self._tell(info)
        if terminated or truncated:
            numbers = {self._metric(name): value for name, value in self._values.items() if not isinstance(value, str)}
            report(info, numbers)
        return observation, reward, terminated, truncated, info

    def _draw(self, name: str, distribution: Distribution) -> Any:
        generator = self._generators.get(name)
        if generator is None:
            seeds = np.random.SeedSequence(self._entropy, spawn_key=(_STREAM, zlib.crc32(name.encode())))
            generator = self._generators[name] = np.random.default_rng(seeds)
        return distribution.at(self.training_progress).sample(generator)

    def _checked(self, values: Any) -> dict[str, Any]:
        if not isinstance(values, Mapping):
            raise ValueError(f"parameters: {values!r} must map names to values, as in {{'gravity': 9.8}}.")
        for name, value in values.items():
            allowed = self._find(name)
            if allowed is not None:
                allowed.check(name, value, value)
        return dict(values)

    def _tell(self, info: dict[str, Any]) -> None:
        info["parameters"] = {**info.get("parameters", {}), **self._values}

    # NamedRandomization overrides these:

    def _find(self, name: str) -> Range | None:
        """Check that the parameter exists, remember its value, and return its allowed range."""
        if name not in self._originals:
            path = AttributePath(str(name))
            path.check(self.env)
            self._paths[name] = path
            self._originals[name] = path.read(self.env)
        return None

    def _write(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            self._paths[name].write(self.env, value)

    def _metric(self, name: str) -> str:
        return f"env/{self._paths[name].short}"

    def _reset_env(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        result = self.env.reset(seed=seed, options=options)
        # Some environments set their attributes again in reset
        self._write({name: value for name, value in self._values.items() if self._paths[name].read(self.env) != value})
        return result

    def _step_env(self, action: Any) -> tuple[Any, SupportsFloat, bool, bool, dict[str, Any]]:
        return self.env.step(action)


class NamedRandomization(DomainRandomization):
    """Parameters with known names and ranges; by default, attributes of the environment."""

    #: Import paths of the environments' classes
    made_for: ClassVar[tuple[str, ...]] = ()
    #: Allowed values of each parameter
    ranges: ClassVar[Mapping[str, Range]] = {}

    def __init__(self, env: gym.Env, parameters: Mapping[str, Any] | None = None) -> None:
        if not self.fits(env):
            names = " and ".join(path.rpartition(":")[2] for path in self.made_for)
            raise ValueError(
                f"{type(self).__name__} is for {names}, not for {env.unwrapped}: DomainRandomization takes "
                "attributes of any environment."
            )
        super().__init__(env, parameters)

    @classmethod
    def fits(cls, env: gym.Env) -> bool:
        """Whether an environment has these parameters."""
        return any(f"{base.__module__}:{base.__name__}" in cls.made_for for base in type(env.unwrapped).__mro__)

    def _find(self, name: str) -> Range:
        if name not in self._originals:
            known = [other for other in self.ranges if self._read(other) is not None]
            check_keywords(f"{type(self).__name__} of {type(self.unwrapped).__name__}", [name], known)
            self._originals[name] = self._read(name)
        return self.ranges[name]

    def _read(self, name: str) -> float | None:
        """``None`` if the environment has no such parameter."""
        return getattr(self.unwrapped, name, None)

    def _write(self, values: Mapping[str, Any]) -> None:
        for name, value in values.items():
            setattr(self.unwrapped, name, value)

    def _metric(self, name: str) -> str:
        return f"env/{name}"

    def _reset_env(self, seed: int | None, options: dict[str, Any] | None) -> tuple[Any, dict[str, Any]]:
        return self.env.reset(seed=seed, options=options)
