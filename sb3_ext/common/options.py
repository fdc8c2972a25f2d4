"""Options as pydantic models: read from YAML or keywords, with all problems in one error, one line each.

A topic's model inherits from :class:`Options`; :func:`read_options` and :func:`read_switch` read it.
"""

import re
from collections.abc import Mapping
from importlib import import_module
from typing import Annotated, Any, ClassVar, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints, ValidationError

from sb3_ext.common.arguments import to_integer, to_number
from sb3_ext.common.names import nearest, suggestion

__all__ = [
    "Count",
    "Fraction",
    "Integer",
    "Items",
    "KeyValues",
    "MappingOf",
    "Number",
    "Options",
    "Strings",
    "Switch",
    "Text",
    "find_problems",
    "read_keywords",
    "read_options",
    "read_switch",
    "to_switch",
]


class Options(BaseModel):
    """Base class of all options. Types are strict: ``every: true`` and ``process: "no"`` are errors."""

    model_config = ConfigDict(strict=True, frozen=True, extra="forbid", allow_inf_nan=False)

    #: Import path of the callback that takes these options, if there is one
    callback: ClassVar[str] = ""

    def make_callback(self, **kwargs: Any) -> Any:
        """:param kwargs: arguments of the callback other than its options"""
        module, name = self.callback.rsplit(".", 1)
        return getattr(import_module(module), name)(options=self, **kwargs)


O = TypeVar("O", bound=Options)  # noqa: E741
T = TypeVar("T")


def to_switch(raw: Any) -> Any:
    """A mapping of options, or ``None``, from what may be ``true`` or ``false`` too."""
    if raw is None or raw is False:
        return None
    if raw is True:
        return {}
    if not isinstance(raw, (Mapping, Options)):
        raise ValueError("must be true, false or a mapping of options")
    return raw


def _to_tuple(raw: Any) -> Any:
    return () if raw is None else (raw,) if isinstance(raw, str) else tuple(raw) if isinstance(raw, list) else raw


#: YAML reads ``1e5`` as a string and ``1.0e+5`` as a float: both are integers here, ``true`` is not
Integer = Annotated[int, BeforeValidator(to_integer)]
Count = Annotated[Integer, Field(ge=1)]
Number = Annotated[float, BeforeValidator(to_number)]
Fraction = Annotated[Number, Field(ge=0, le=1)]
Text = Annotated[str, StringConstraints(min_length=1, max_length=200)]
#: A list, a single string, or null for an empty list
Items = Annotated[tuple[T, ...], BeforeValidator(_to_tuple)]
Strings = Items[Text]
#: A mapping; null, as YAML reads a key with nothing after it, for an empty one
MappingOf = Annotated[dict[str, T], BeforeValidator(lambda raw: {} if raw is None else raw)]
KeyValues = MappingOf[Any]
#: true for all defaults, false or null for off, or a mapping
Switch = Annotated[O | None, BeforeValidator(to_switch)]


def read_options(cls: type[O], raw: Any, where: str) -> O:
    """
    :param raw: a mapping, null for all defaults, or an instance
    :param where: path of these options, for errors
    :raises TypeError: when keys are unknown or missing
    :raises ValueError: when values are not allowed
    """
    try:
        return cls.model_validate({} if raw is None else raw)
    except ValidationError as error:
        problems = error.errors(include_url=False)
    lines = [_describe(cls, problem, where) for problem in problems]
    only_names = all(problem["type"] in ("extra_forbidden", "missing") for problem in problems)
    raise (TypeError if only_names else ValueError)("\n".join(lines))


def find_problems(cls: type[Options], raw: Any, where: str) -> list[tuple[tuple[int | str, ...], str]]:
    """Each problem that :func:`read_options` would raise: its path below ``where``, and its line of the error."""
    try:
        cls.model_validate({} if raw is None else raw)
        return []
    except ValidationError as error:
        return [(problem["loc"], _describe(cls, problem, where)) for problem in error.errors(include_url=False)]


def read_switch(cls: type[O], raw: Any, where: str) -> O | None:
    """Like :func:`read_options`, but true means all defaults, and false or null means off (``None``)."""
    try:
        raw = to_switch(raw)
    except ValueError as error:
        raise ValueError(f"{where}={raw!r} {error} ({', '.join(cls.model_fields)}).") from None
    return None if raw is None else read_options(cls, raw, where)


def read_keywords(cls: type[O], options: O | None, keywords: Mapping[str, Any], owner: object) -> O:
    """The options of a callback, which takes either the model or its fields as keywords."""
    name = type(owner).__name__
    if options is not None and keywords:
        raise TypeError(f"{name}: give either options or {', '.join(keywords)}, not both.")
    return read_options(cls, keywords if options is None else options, name)


#: What a value must be, by the type of pydantic's error
_ALLOWED = {
    "bool_type": "must be true or false (without quotes in YAML)",
    "dict_type": "must be a mapping",
    "finite_number": "must be a finite number",
    "greater_than": "must be above {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than_equal": "must be at most {le:g}",
    "model_type": "must be a mapping of options",
    "string_pattern_mismatch": "must match {pattern}",
    "string_too_long": "must have at most {max_length} characters",
    "string_too_short": "must not be empty",
    "string_type": "must be a string",
    "too_short": "must not be empty",
    "tuple_type": "must be a list",
}


def _describe(cls: type[Options], problem: Any, where: str) -> str:
    """Path, value, what is allowed, and the nearest known name."""
    kind, location, raw, context = problem["type"], problem["loc"], problem["input"], problem.get("ctx", {})
    if kind in ("extra_forbidden", "missing"):
        *location, name = location
        path = _path(where, location)
        if kind == "missing":
            return f"{path} needs {name}."
        return f"{path} has no option {name!r}: {nearest(str(name), _model_at(cls, location).model_fields)}"
    path = _path(where, location)
    if kind == "literal_error":
        choices = re.findall(r"'([^']*)'", context["expected"])
        return f"{path}={raw!r} must be {context['expected']}{suggestion(raw, choices)}"
    if kind == "value_error":
        said = str(context["error"]).removesuffix(".")
        # About a key, or about several options together: the message says which
        says_what = location[-1:] == ("[key]",) or isinstance(raw, (Mapping, tuple))
        return f"{path}: {said}." if says_what else f"{path}={raw!r} {said}."
    allowed = _ALLOWED[kind].format(**context) if kind in _ALLOWED else problem["msg"]
    return f"{path}={raw!r} {allowed}."


def _path(where: str, location: Any) -> str:
    return ": ".join([where, *(str(part + 1) if isinstance(part, int) else str(part) for part in location)])


def _model_at(cls: type[Options], location: Any) -> type[Options]:
    for part in location:
        if part in cls.model_fields:
            cls = _model_in(cls.model_fields[part].annotation) or cls
    return cls


def _model_in(annotation: Any) -> type[Options] | None:
    """The model inside ``Model | None``, ``tuple[Model, ...]`` and the like."""
    if isinstance(annotation, type) and issubclass(annotation, Options):
        return annotation
    return next(filter(None, map(_model_in, get_args(annotation))), None)
