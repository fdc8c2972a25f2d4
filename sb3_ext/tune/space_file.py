"""Reads the file of a search space."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sb3_ext.common.arguments import to_number
from sb3_ext.common.names import nearest
from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.dimension import CONSTANT, Choices, Dimension, Span
from sb3_ext.zoo.config.reader import raise_problems, read_config
from sb3_ext.zoo.config.schema import SET_BY_FLAGS, Parameter, section_parameters
from sb3_ext.zoo.registry import algorithm_class

__all__ = ["default_space", "parse_dimension", "read_space"]

_SPACES = Path(__file__).parent / "spaces"
#: What a mapping may have
_KEYS = ("low", "high", "log", "choices", "schedule", "or", "when")
#: Keys that a study sets, or that make no sense to search
_NOT_SEARCHED = {"n_timesteps": "--timesteps", **SET_BY_FLAGS}
#: Leaves a key of the base space as it is in the section
_KEEP = "keep"


def default_space(algo: str) -> Path:
    """The file of an algorithm's default space."""
    path = _SPACES / f"{algo}.yml"
    if not path.exists():
        raise UsageError(f"There is no default search space for {algo}: write one.")
    return path


def read_space(path: Path, algo: str) -> tuple[tuple[Dimension, ...], dict[str, Any], dict[str, str]]:
    """
    :return: what is searched, what is fixed, and the place of each key
    :raises UsageError: with file, line and key
    """
    raw, places = _read_keys(path)
    dimensions: dict[str, Dimension] = {}
    fixed: dict[str, Any] = {}
    for key, spec in raw.items():
        try:
            _check_key(key, algo)
            if isinstance(spec, (list, Mapping)):
                dimensions[key] = parse_dimension(key, spec, algo)
                _check_condition(dimensions[key], dimensions)
            else:
                fixed[key] = spec
        except ValueError as error:
            raise UsageError(f"{places[key]}: {error}") from None
    if not dimensions:
        raise UsageError(f"{path}: there is nothing to search: write a range or choices for a key.")
    return tuple(dimensions.values()), fixed, places


def _read_keys(path: Path) -> tuple[dict[str, Any], dict[str, str]]:
    """With those of the space that it is based on, where it does not change them."""
    file = read_config(path, "keys of a section to what is searched")
    raise_problems(file.problems)
    own = {str(key): spec for key, spec in file.sections.items() if key != "base"}
    places = {key: file.where([key]) for key in own}
    base = file.sections.get("base")
    if base is None:
        return own, places
    known = sorted(found.stem for found in _SPACES.glob("*.yml"))
    if base not in known:
        raise UsageError(f"{file.where(['base'])}: there is no default space {base!r}: {nearest(str(base), known)}")
    raw, of_base = _read_keys(_SPACES / f"{base}.yml")
    kept = [key for key in raw if own.get(key) == _KEEP]
    merged = {**raw, **own}
    return {key: spec for key, spec in merged.items() if key not in kept}, {**of_base, **places}


def _check_key(key: str, algo: str) -> None:
    first = key.split(".")[0]
    if key in _NOT_SEARCHED:
        raise ValueError(f"{key} can't be searched: it is set by {_NOT_SEARCHED[key]}.")
    known = [*section_parameters(algorithm_class(algo)), "ext"]
    if first not in known:
        raise ValueError(f"{algorithm_class(algo).__name__} has no parameter {first!r}: {nearest(first, known)}")


def _check_condition(dimension: Dimension, above: Mapping[str, Dimension]) -> None:
    for key in dimension.when:
        if key not in above or key == dimension.key:
            others = [name for name in above if name != dimension.key]
            advice = nearest(key, others) if others else "write it above."
            raise ValueError(f"{dimension.key}: when: {key!r} is not searched above this key: {advice}")


def parse_dimension(key: str, raw: Any, algo: str) -> Dimension:
    """
    :param raw: a list of choices, or a mapping
    :raises ValueError: when it has a mistake
    """
    parameter = section_parameters(algorithm_class(algo)).get(key)
    spec = raw if isinstance(raw, Mapping) else {"choices": raw}
    for name in spec:
        if name not in _KEYS:
            raise ValueError(f"{key} has no key {name!r}: {nearest(str(name), _KEYS)}")
    if ("choices" in spec) == ("low" in spec or "high" in spec):
        raise ValueError(f"{key} needs either choices, or low and high.")
    values = _choices(key, spec, parameter) if "choices" in spec else _span(key, spec, parameter)
    forms = _list(key, "schedule", spec.get("schedule", [CONSTANT]))
    for form in forms:
        if form not in (CONSTANT, "lin") and not isinstance(form, Mapping):
            raise ValueError(f"{key}: schedule={form!r} must be constant, lin, or a mapping such as {{end: 0.0001}}.")
    when = spec.get("when", {})
    if not isinstance(when, Mapping):
        raise ValueError(f"{key}: when={when!r} must be a mapping of keys to values.")
    conditions = {str(name): allowed if isinstance(allowed, list) else [allowed] for name, allowed in when.items()}
    return Dimension(key, values, tuple(forms), tuple(_list(key, "or", spec.get("or", []), 0)), conditions)


def _list(key: str, name: str, raw: Any, at_least: int = 1) -> list[Any]:
    if not isinstance(raw, list) or len(raw) < at_least:
        raise ValueError(f"{key}: {name}={raw!r} must be a list{' with an item' * at_least}.")
    return raw


def _choices(key: str, spec: Mapping[str, Any], parameter: Parameter | None) -> Choices:
    raw = _list(key, "choices", spec["choices"])
    read = [_number_from_text(value) for value in raw]
    if None not in read:
        raw = [parameter.read(value) if parameter is not None else value for value in read]
    return Choices(tuple(sorted(set(raw)) if None not in read else raw))


def _number_from_text(raw: Any) -> Any:
    """YAML reads ``1e-4`` as a string; ``None`` for anything that is not a number."""
    try:
        return to_number(raw) if isinstance(raw, str) else raw if to_number(raw) is not None else None
    except ValueError:
        return None


def _span(key: str, spec: Mapping[str, Any], parameter: Parameter | None) -> Span:
    ends = []
    for name in ("low", "high"):
        if name not in spec:
            raise ValueError(f"{key} needs {name}.")
        ends.append(_number_from_text(spec[name]))
        if ends[-1] is None or not math.isfinite(ends[-1]):
            raise ValueError(f"{key}: {name}={spec[name]!r} must be a number.")
    low, high = ends
    log = spec.get("log", False)
    if log not in (True, False, "one_minus"):
        raise ValueError(f"{key}: log={log!r} must be true, false or one_minus.")
    if not low < high:
        raise ValueError(f"{key}: the range from low={low:g} to high={high:g} is empty.")
    if log is True and low <= 0:
        raise ValueError(f"{key}: low={low:g} must be above 0 on a log scale.")
    if log == "one_minus" and high >= 1:
        raise ValueError(f"{key}: high={high:g} must be below 1 with log: one_minus.")
    types = () if parameter is None else parameter.types
    is_integer = "number" not in types and all(type(end) is int for end in ends)
    if "integer" in types and "number" not in types:
        if not all(float(end).is_integer() for end in ends):
            raise ValueError(f"{key}: low={low:g} and high={high:g} must be whole numbers.")
        low, high, is_integer = int(low), int(high), True
    return Span(low, high, log, is_integer)
