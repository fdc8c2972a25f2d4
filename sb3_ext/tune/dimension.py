"""One key of a search space: how its values become parameters of Optuna, and back."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import optuna

from sb3_ext.common.arguments import to_number

__all__ = ["CONSTANT", "CantExpress", "Choices", "Dimension", "Span", "fulfils"]

#: The form of a number that is not a schedule
CONSTANT = "constant"


class CantExpress(ValueError):
    """A value that the search space does not contain."""


def _encoded(value: Any) -> Any:
    """As a choice of Optuna's, which can't be a list or a mapping."""
    is_plain = value is None or isinstance(value, (bool, int, float, str))
    return value if is_plain else json.dumps(value, sort_keys=True, default=str)


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


@dataclass(frozen=True)
class Span:
    """
    Numbers between two ends.

    :param log: ``True`` for a log scale; ``"one_minus"`` for one of the distance to 1, for discount factors
    """

    low: float
    high: float
    log: bool | str = False
    is_integer: bool = False

    def name(self, key: str) -> str:
        return f"1 - {key}" if self.log == "one_minus" else key

    def suggest(self, trial: optuna.Trial, key: str) -> None:
        low, high = sorted((self.encode(self.low), self.encode(self.high)))
        if self.is_integer:
            trial.suggest_int(self.name(key), int(low), int(high), log=bool(self.log))
        else:
            trial.suggest_float(self.name(key), low, high, log=bool(self.log))

    def encode(self, value: Any) -> Any:
        if not _is_number(value) or not self.low <= value <= self.high or (self.is_integer and value != int(value)):
            raise CantExpress(f"{value!r} is not {self}")
        # Rounded, so that 0.99 comes back as 0.99
        return int(value) if self.is_integer else round(1 - value, 12) if self.log == "one_minus" else float(value)

    def decode(self, param: Any) -> Any:
        return round(1 - param, 12) if self.log == "one_minus" else param

    def widened(self, value: Any) -> Span | None:
        """To the value; ``None`` where that is impossible."""
        if not _is_number(value) or not math.isfinite(value) or (self.is_integer and value != int(value)):
            return None
        if (self.log is True and value <= 0) or (self.log == "one_minus" and value >= 1):
            return None
        value = int(value) if self.is_integer else value
        return replace(self, low=min(self.low, value), high=max(self.high, value))

    def as_dict(self) -> dict[str, Any]:
        return {"low": self.low, "high": self.high} | ({"log": self.log} if self.log else {})

    def __str__(self) -> str:
        scale = {True: ", log scale", "one_minus": ", log scale of the distance to 1"}.get(self.log, "")
        return f"{'a whole number ' * self.is_integer}from {self.low:g} to {self.high:g}{scale}"


@dataclass(frozen=True)
class Choices:
    """
    Values from a list. Numbers in ascending order are an integer parameter of Optuna's, so that samplers see which are
    near each other: the exponent of powers of two, the index of others.
    """

    values: tuple[Any, ...]

    @property
    def _is_ordered(self) -> bool:
        return len(self.values) > 1 and all(map(_is_number, self.values)) and list(self.values) == sorted(self.values)

    @property
    def _first_power(self) -> int | None:
        """If these are powers of two one after the other."""
        if not self._is_ordered or self.values[0] < 1:
            return None
        first = round(math.log2(self.values[0]))
        return first if all(value == 2 ** (first + i) for i, value in enumerate(self.values)) else None

    def name(self, key: str) -> str:
        if self._first_power is not None:
            return f"log2({key})"
        return f"index({key})" if self._is_ordered else key

    def suggest(self, trial: optuna.Trial, key: str) -> None:
        if self._is_ordered:
            trial.suggest_int(self.name(key), self.encode(self.values[0]), self.encode(self.values[-1]))
        else:
            trial.suggest_categorical(self.name(key), list(map(_encoded, self.values)))

    def encode(self, value: Any) -> Any:
        matching = [i for i, choice in enumerate(self.values) if _is_same(choice, value)]
        if not matching:
            raise CantExpress(f"{value!r} is not {self}")
        return matching[0] + (self._first_power or 0) if self._is_ordered else _encoded(self.values[matching[0]])

    def decode(self, param: Any) -> Any:
        if self._is_ordered:
            return self.values[param - (self._first_power or 0)]
        return next(value for value in self.values if _is_same(_encoded(value), param))

    def widened(self, value: Any) -> Choices | None:
        if self._is_ordered and not _is_number(value):
            return None
        return Choices(tuple(sorted((*self.values, value)) if self._is_ordered else (*self.values, value)))

    def as_dict(self) -> dict[str, Any]:
        return {"choices": list(self.values)}

    def __str__(self) -> str:
        return f"one of {', '.join(json.dumps(value) for value in self.values)}"


@dataclass(frozen=True)
class Dimension:
    """
    A key of a search space.

    :param key: of the section, or a path in it
    :param forms: of a number: ``constant``, ``lin`` (RL Zoo's ``lin_0.001``), or a schedule without its ``start``
    :param others: values besides these numbers or choices
    :param when: keys above and the values that they must have; without them the section does not have this key
    """

    key: str
    values: Span | Choices
    forms: tuple[Any, ...] = (CONSTANT,)
    others: tuple[Any, ...] = ()
    when: dict[str, list[Any]] = field(default_factory=dict)

    @property
    def _form_name(self) -> str:
        return f"{self.key} form"

    @property
    def _has_form(self) -> bool:
        return len(self.forms) + len(self.others) > 1

    def _parts(self, value: Any) -> tuple[Any, Any]:
        """Its form, ``None`` for none, and its number or choice."""
        takes_numbers = isinstance(self.values, Span) or all(map(_is_number, self.values.values))
        return (_split(value) or (None, value)) if takes_numbers else (CONSTANT, value)

    def is_active(self, values: Mapping[str, Any]) -> bool:
        """:param values: of the active keys above"""
        return all(key in values and fulfils(values[key], allowed) for key, allowed in self.when.items())

    def suggest(self, trial: optuna.Trial) -> Any:
        """Ask for its parameters, and return its value."""
        form = None
        if self._has_form:
            form = trial.suggest_categorical(self._form_name, [*map(_encoded, (*self.forms, *self.others))])
        if not self._has_form or not any(_is_same(form, _encoded(other)) for other in self.others):
            self.values.suggest(trial, self.key)
        return self.decode(trial.params)

    def encode(self, value: Any) -> dict[str, Any]:
        """
        Optuna's parameters for a value.

        :raises CantExpress: when it is not in the search space
        """
        for other in self.others:
            if _is_same(other, value):
                return {self._form_name: _encoded(other)}
        form, inner = self._parts(value)
        if not any(_is_same(form, known) for known in self.forms):
            raise CantExpress(f"{self.key}: {value!r} is not {self.allowed}.")
        try:
            params = {self.values.name(self.key): self.values.encode(inner)}
        except CantExpress as error:
            raise CantExpress(f"{self.key}: {error}.") from None
        return {self._form_name: _encoded(form), **params} if self._has_form else params

    def decode(self, params: Mapping[str, Any]) -> Any:
        form = self.forms[0]
        if self._has_form:
            given = params[self._form_name]
            for other in self.others:
                if _is_same(_encoded(other), given):
                    return other
            form = next(known for known in self.forms if _is_same(_encoded(known), given))
        number = self.values.decode(params[self.values.name(self.key)])
        if isinstance(form, Mapping):
            return {"start": number, **form}
        return f"lin_{number!r}" if form == "lin" else number

    def widened(self, value: Any) -> Dimension:
        """With the value, if it did not have it."""
        try:
            self.encode(value)
            return self
        except CantExpress:
            pass
        form, inner = self._parts(value)
        try:
            self.values.encode(inner)
            values: Span | Choices | None = self.values
        except CantExpress:
            values = self.values.widened(inner)
        if values is None or form is None:
            return replace(self, others=(*self.others, value))
        is_known = any(_is_same(form, known) for known in self.forms)
        return replace(self, values=values, forms=self.forms if is_known else (*self.forms, form))

    def corners(self) -> list[Any]:
        """The ends or choices in each form, and the other values."""
        values = [self.values.low, self.values.high] if isinstance(self.values, Span) else self.values.values
        name = self.values.name(self.key)
        forms = [{self._form_name: _encoded(form)} for form in self.forms]
        return [*self.others, *(self.decode({**form, name: self.values.encode(v)}) for form in forms for v in values)]

    def as_dict(self) -> dict[str, Any]:
        """As in YAML."""
        raw = self.values.as_dict()
        raw |= {} if self.forms == (CONSTANT,) else {"schedule": list(self.forms)}
        raw |= {"or": list(self.others)} if self.others else {}
        return raw | ({"when": self.when} if self.when else {})

    @property
    def allowed(self) -> str:
        """In words."""
        lin = "lin_<number> (falls to 0)"
        forms = [lin if form == "lin" else form if form == CONSTANT else json.dumps(form) for form in self.forms]
        words = str(self.values) + (f", as {' or '.join(forms)}" if self.forms != (CONSTANT,) else "")
        words += "".join(f", or {json.dumps(other)}" for other in self.others)
        conditions = (f"{key} is {' or '.join(map(_in_words, values))}" for key, values in self.when.items())
        return words + (f"; only if {' and '.join(conditions)}" if self.when else "")


def _in_words(condition: Any) -> str:
    """See :func:`fulfils`."""
    return f"a {condition}" if condition in ("number", CONSTANT) else json.dumps(condition)


def fulfils(value: Any, allowed: Sequence[Any]) -> bool:
    """Whether a condition allows a value; ``number`` allows any number or schedule, ``constant`` or ``lin`` a form."""
    form, _ = _split(value) or (None, value)
    names = ["number", form] if form is not None else []
    return any(_is_same(found, choice) for found in (value, *names) for choice in allowed)


def _is_same(one: Any, other: Any) -> bool:
    """YAML's true is not 1."""
    return bool(_encoded(one) == _encoded(other)) and isinstance(one, bool) == isinstance(other, bool)


def _split(value: Any) -> tuple[Any, float] | None:
    """A number or a schedule as its form and its first number."""
    if isinstance(value, Mapping) and "start" in value:
        return {name: part for name, part in value.items() if name != "start"}, to_number(value["start"])
    if isinstance(value, str) and value.startswith("lin_"):
        return "lin", to_number(value.removeprefix("lin_"))
    try:
        return CONSTANT, value if _is_number(value) else to_number(value)
    except ValueError:
        return None
