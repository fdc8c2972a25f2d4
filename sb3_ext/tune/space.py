"""Search spaces: which values of a section a study tries, read from YAML."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import optuna
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.common.arguments import to_integer
from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.dimension import CantExpress, Dimension, fulfils
from sb3_ext.tune.space_file import default_space, parse_dimension, read_space
from sb3_ext.zoo.config.check import check_section
from sb3_ext.zoo.config.reader import Problem
from sb3_ext.zoo.config.schema import section_parameters
from sb3_ext.zoo.config.section_paths import MISSING, NoSuchPath, default_of, read_value, remove_value, write_value
from sb3_ext.zoo.registry import algorithm_class

__all__ = ["CantExpress", "SearchSpace", "fitted"]


@dataclass(frozen=True)
class SearchSpace:
    """
    :param dimensions: the keys that are searched, a condition's key before those that depend on it
    :param fixed: values of keys that are not searched, and ``auto`` (see :mod:`sb3_ext.tune.auto`)
    :param places: file and line by key, for messages
    """

    algo: str
    env_id: str
    dimensions: tuple[Dimension, ...]
    fixed: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    @classmethod
    def read(cls, path: Path | None, algo: str, env_id: str) -> SearchSpace:
        """
        :param path: ``None`` for the algorithm's default space
        :raises UsageError: with file, line and key
        """
        return cls(algo, env_id, *read_space(path or default_space(algo), algo))

    def start(self, section: Mapping[str, Any]) -> dict[str, Any]:
        """
        The section with the fixed values: the one that a study starts from and that :meth:`apply` changes.

        :raises UsageError: when values of the space are wrong for this section: fixed ones, ends of ranges, choices
        """
        known = {problem.text for problem in self._problems(section)}
        new = dict(section)
        for key, value in self.fixed.items():
            new = self._tried(new, key, value, known)
        for dimension in self.dimensions:
            for value in dimension.corners():
                tried = new
                for key, allowed in dimension.when.items():
                    tried = write_value(tried, key, self._example(key, allowed))
                self._tried(tried, dimension.key, value, known)
            if self._value(new, dimension.key) is MISSING and not dimension.when:
                unknown = f"{dimension.key} has no default, and the section does not set it: set it there"
                raise UsageError(f"{self._place(dimension.key)}: {unknown}, so that the study has a start.")
        return new

    def _tried(self, section: Mapping[str, Any], key: str, value: Any, known: Collection[str]) -> dict[str, Any]:
        """With a value, checked."""
        try:
            new = write_value(section, key, value)
        except NoSuchPath as error:
            raise UsageError(f"{self._place(key)}: {error}") from None
        tried = new
        for other in self.dimensions:
            if not fulfils(value, other.when.get(key, [value])):
                tried = remove_value(tried, other.key)
        for problem in self._problems(tried):
            if problem.text not in known and not problem.is_warning:
                raise UsageError(f"{self._place(key)}: {problem.text}")
        return new

    def _problems(self, section: Mapping[str, Any]) -> list[Problem]:
        # Not measured yet
        numbers = {key: 2 for key in ("n_envs", "n_steps") if section.get(key) == "auto"}
        return check_section({**section, **numbers}, self.algo, self.env_id, str, has_budget=True)

    def _place(self, key: str) -> str:
        return self.places.get(key, "the search space")

    def _example(self, key: str, allowed: list[Any]) -> Any:
        """A value that fulfils a condition."""
        of_key = next(dimension for dimension in self.dimensions if dimension.key == key)
        return next((value for value in of_key.corners() if fulfils(value, allowed)), allowed[0])

    def suggest(self, trial: optuna.Trial) -> None:
        """Ask for all parameters, those of conditional keys only if they count."""
        values: dict[str, Any] = {}
        for dimension in self.dimensions:
            if dimension.is_active(values):
                values[dimension.key] = dimension.suggest(trial)

    def params_of(self, section: Mapping[str, Any]) -> dict[str, Any]:
        """
        Optuna's parameters for the values of a section; a missing key has its default.

        :raises CantExpress: when one is not in the space
        """
        params: dict[str, Any] = {}
        for dimension, value in self._values(section):
            if value is MISSING:
                raise CantExpress(f"{dimension.key}: the section does not set it, and it has no default.")
            params |= dimension.encode(value)
        return params

    def _values(self, section: Mapping[str, Any]) -> list[tuple[Dimension, Any]]:
        """The active dimensions and their values."""
        values: dict[str, Any] = {}
        active = []
        for dimension in self.dimensions:
            if dimension.is_active(values):
                value = self._value(section, dimension.key)
                values[dimension.key] = value
                active.append((dimension, value))
        return active

    def _value(self, section: Mapping[str, Any], key: str) -> Any:
        """``MISSING`` for one without a default, or of a wrapper that the section does not have."""
        try:
            value = read_value(section, key)
            return default_of(section, key, self.algo, self.env_id) if value is MISSING else value
        except NoSuchPath:
            return MISSING

    def apply(self, section: Mapping[str, Any], params: Mapping[str, Any]) -> dict[str, Any]:
        """
        The section with the values of a trial. What has this value already stays as it is written, so a section's own
        parameters give the same section. A batch is not larger than a rollout, and PPO's divides it.
        """
        before = {dimension.key: value for dimension, value in self._values(section)}
        values: dict[str, Any] = {}
        new = dict(section)
        for dimension in self.dimensions:
            key = dimension.key
            if dimension.is_active(values):
                values[key] = dimension.decode(params)
                if key not in before or not _is_equal(dimension, before[key], values[key]):
                    new = write_value(new, key, values[key])
            elif key in before:
                new = remove_value(new, key)
        return fitted(new, section, self.algo)

    def including(self, section: Mapping[str, Any]) -> tuple[SearchSpace, list[str]]:
        """
        Widened so that the section's values are inside.

        :return: and what was widened
        """
        new = {
            dimension.key: dimension.widened(value)
            for dimension, value in self._values(section)
            if value is not MISSING
        }
        changed = [dimension for dimension in self.dimensions if new.get(dimension.key, dimension) != dimension]
        dimensions = tuple(new.get(dimension.key, dimension) for dimension in self.dimensions)
        said = [
            f"Search space: {d.key} is {new[d.key].allowed}, to include {self._value(section, d.key)!r}."
            for d in changed
        ]
        return replace(self, dimensions=dimensions), said

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        keys = {dimension.key: dimension.as_dict() for dimension in self.dimensions}
        return {"algo": self.algo, "env_id": self.env_id, "keys": keys, "fixed": self.fixed}

    @classmethod
    def from_dict(cls, raw: Mapping[str, Any]) -> SearchSpace:
        dimensions = tuple(parse_dimension(key, spec, raw["algo"]) for key, spec in raw["keys"].items())
        return cls(raw["algo"], raw["env_id"], dimensions, raw["fixed"])

    def describe(self) -> str:
        """One line for each key, in terms of the section."""
        lines = [f"{dimension.key}: {dimension.allowed}" for dimension in self.dimensions]
        return "\n".join([*lines, *(f"{key}: always {value!r}" for key, value in self.fixed.items())])


def _is_equal(dimension: Dimension, one: Any, other: Any) -> bool:
    try:
        return one is not MISSING and dimension.encode(one) == dimension.encode(other)
    except CantExpress:
        return False


def fitted(new: dict[str, Any], old: Mapping[str, Any], algo: str) -> dict[str, Any]:
    """
    What follows from other values: RL Zoo wants the type of a noise, and a batch is not larger than the rollout.

    :param old: the section before it was changed; what was not changed stays
    """
    if "noise_std" in new:
        new.setdefault("noise_type", "normal")
    keys = ("n_envs", "n_steps", "batch_size")
    algorithm = algorithm_class(algo)
    defaults = {name: p.default for name, p in section_parameters(algorithm).items() if p.has_default}
    given = {"n_envs": 1, **defaults, **new}
    is_same = all(new.get(key) == old.get(key) for key in keys)
    if is_same or not issubclass(algorithm, OnPolicyAlgorithm) or given.get("batch_size") is None:
        return new
    n_envs, n_steps, wanted = (to_integer(given[key]) for key in keys)
    rollout = n_envs * n_steps
    # PPO's should divide it: a last minibatch of a few samples is noise
    largest = max(size for size in range(1, min(wanted, rollout) + 1) if rollout % size == 0)
    if largest == wanted:
        return new
    if "batch_size" not in old and largest == defaults["batch_size"]:
        return {key: value for key, value in new.items() if key != "batch_size"}  # it has this value already
    return {**new, "batch_size": largest}
