"""A JSON schema of hyperparameter files for editors, from the same source as the check."""

import inspect
import json
import math
import re
from typing import Any

from pydantic.json_schema import GenerateJsonSchema
from rl_zoo3.utils import ALGOS
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_ext.common.arguments import to_integer, to_number
from sb3_ext.zoo.config.schema import Parameter, section_parameters
from sb3_ext.zoo.options import ExtOptions

__all__ = ["editor_schema"]

_LIMITS = {"ge": "minimum", "gt": "exclusiveMinimum", "le": "maximum", "lt": "exclusiveMaximum"}
_ALL_TYPES = {"array", "boolean", "integer", "null", "number", "object", "string"}


def editor_schema(algo: str) -> dict[str, Any]:
    """The schema of a file for an algorithm."""
    algorithm = ALGOS[algo]
    texts = _descriptions(algorithm)
    ext = ExtOptions.model_json_schema(schema_generator=_OptionsSchema)
    definitions = ext.pop("$defs", {})
    properties = {
        name: _property(parameter, texts.get(name)) for name, parameter in section_parameters(algorithm).items()
    }
    properties["policy"] |= {"examples": list(algorithm.policy_aliases)}
    section = {
        "type": "object",
        "properties": {"<<": {}, **properties, "ext": ext},
        "additionalProperties": False,
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Hyperparameters for {algo}: environment ids, and their sections",
        "type": "object",
        "additionalProperties": {"$ref": "#/$defs/Section"},
        "$defs": {**definitions, "Section": section},
    }


class _OptionsSchema(GenerateJsonSchema):
    """Knows that validators of options read more than the type behind them, such as ``true`` for all defaults."""

    def function_before_schema(self, schema: Any) -> dict[str, Any]:
        read = super().function_before_schema(schema)
        if schema["function"]["function"] in (to_integer, to_number):
            return read
        options = read.get("anyOf", [read])
        rest = sorted(_ALL_TYPES - {option.get("type", "object") for option in options})
        return {"anyOf": [*options, {"type": rest}]}

    def generate(self, schema: Any, mode: Any = "validation") -> dict[str, Any]:
        # Limits behind a validator keep pydantic's names
        text = json.dumps(super().generate(schema, mode))
        return json.loads(re.sub(r'"(ge|gt|le|lt)":', lambda name: f'"{_LIMITS[name[1]]}":', text))

    def emit_warning(self, kind: Any, detail: str) -> None:
        """Defaults that JSON can't express are left out."""


def _property(parameter: Parameter, text: str | None) -> dict[str, Any]:
    about: dict[str, Any] = {} if text is None else {"description": text}
    if parameter.has_default and isinstance(parameter.default, (bool, int, float, str, type(None))):
        about["default"] = parameter.default
    allowed: list[dict[str, Any]] = [_type(kind, parameter) for kind in parameter.types]
    if parameter.choices:
        allowed.append({"enum": list(parameter.choices)})
    if parameter.schedule == "any":
        allowed += [{"type": "object", "required": ["start"]}, {"type": "array"}]
    if parameter.schedule:
        allowed.append({"type": "string", "pattern": r"^lin_"})
    return about | ({"anyOf": allowed} if len(allowed) > 1 else allowed[0] if allowed else {})


def _type(kind: str, parameter: Parameter) -> dict[str, Any]:
    if kind not in ("integer", "number"):
        return {"type": kind}
    low, high, is_open = parameter.range
    limits = {} if low == -math.inf else {"exclusiveMinimum" if is_open else "minimum": low}
    return {"type": kind, **limits, **({} if high == math.inf else {"maximum": high})}


def _descriptions(algorithm: type[BaseAlgorithm]) -> dict[str, str]:
    """Of parameters, from the docstrings of the class and those that it is made from."""
    found: dict[str, str] = {}
    for cls in algorithm.__mro__:
        for name, text in re.findall(r":param (\w+):(.*?)(?=\n:|\Z)", inspect.cleandoc(cls.__doc__ or ""), re.DOTALL):
            found.setdefault(name, " ".join(text.split()))
    return found
