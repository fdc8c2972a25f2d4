"""What a section of a hyperparameter file may contain: the parameters of the algorithm's constructor, with their types
and defaults, and RL Zoo's own keys. Only ranges are written down here, by name.
"""

from __future__ import annotations

import functools
import inspect
import math
import numbers
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Union, get_args, get_origin

from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_ext.common.arguments import to_integer, to_number
from sb3_ext.common.names import suggestion
from sb3_ext.common.schedules import Schedule, parse_schedule
from sb3_ext.zoo.upstream import SCHEDULES

__all__ = ["FIRST_KEYS", "SET_BY_FLAGS", "Parameter", "Range", "parameter_from", "section_parameters"]

#: Parameters that RL Zoo passes itself, and the flag that sets them
SET_BY_FLAGS = {
    "device": "--device",
    "env": "--env",
    "seed": "--seed",
    "tensorboard_log": "--tensorboard-log",
    "verbose": "--verbose",
}


class Range(NamedTuple):
    """:param is_open: whether the smallest value is itself too small"""

    low: float = -math.inf
    high: float = math.inf
    is_open: bool = False

    def __str__(self) -> str:
        low = [] if self.low == -math.inf else [f"{'above' if self.is_open else 'at least'} {self.low:g}"]
        return " and ".join([*low, *([] if self.high == math.inf else [f"at most {self.high:g}"])])

    def contains(self, values: tuple[float, ...]) -> bool:
        """A schedule may go down to 0 where a constant 0 makes no sense: RL Zoo's ``lin_0.001`` does."""
        starts_inside = values[0] > self.low if self.is_open else values[0] >= self.low
        return starts_inside and all(self.low <= value <= self.high for value in values)


_FRACTION, _POSITIVE, _COUNT, _NOT_NEGATIVE = Range(0, 1), Range(0, is_open=True), Range(1), Range(0)
_RANGES: dict[str, Range] = {
    **dict.fromkeys(("exploration_final_eps", "exploration_fraction", "gae_lambda", "gamma", "tau"), _FRACTION),
    **dict.fromkeys(("clip_range", "clip_range_vf", "kl_adaptive_lr", "kl_stop_factor"), _POSITIVE),
    **dict.fromkeys(("max_grad_norm", "rms_prop_eps", "target_kl"), _POSITIVE),
    **dict.fromkeys(("batch_size", "buffer_size", "frame_stack", "max_episode_steps", "n_envs", "n_epochs"), _COUNT),
    **dict.fromkeys(("n_steps", "n_timesteps", "stats_window_size", "target_update_interval"), _COUNT),
    **dict.fromkeys(("ent_coef", "learning_rate", "learning_starts", "noise_std", "vf_coef"), _NOT_NEGATIVE),
    **dict.fromkeys(("gradient_steps", "sde_sample_freq"), Range(-1)),
}
#: Where infinity means no limit
_MAY_BE_INFINITE = ("clip_range", "clip_range_vf", "max_grad_norm")
#: What JSON schema calls types
_JSON_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string", dict: "object", tuple: "array"}
_JSON_TYPES |= {type(None): "null", list: "array"}
_WORDS = {
    "boolean": "true or false (without quotes)",
    "integer": "a whole number",
    "number": "a number",
    "string": "a string",
    "object": "a mapping",
    "array": "a list",
    "null": "null",
}


def _json_type(raw: Any) -> str | None:
    abstract = {bool: "boolean", numbers.Integral: "integer", numbers.Real: "number", Mapping: "object"}
    return next((name for cls, name in (abstract | _JSON_TYPES).items() if isinstance(raw, cls)), None)


@dataclass(frozen=True)
class Parameter:
    """
    What the value of a key may be; anything without types, choices and classes.

    :param types: in the words of JSON schema
    :param choices: constants that are allowed too
    :param classes: of objects that are allowed too; YAML can't contain them
    :param schedule: ``"any"`` kind of schedule, RL Zoo's ``"lin_…"`` only, or ``""`` for none
    :param length: of a list; ``None`` for any
    :param reads_text: whether a number may be a string, which YAML makes of ``1e-4``
    """

    name: str
    types: tuple[str, ...] = ()
    choices: tuple[Any, ...] = ()
    classes: tuple[type, ...] = ()
    schedule: str = ""
    reads_text: bool = True
    default: Any = inspect.Parameter.empty
    length: int | None = None

    @property
    def has_default(self) -> bool:
        return self.default is not inspect.Parameter.empty

    @property
    def range(self) -> Range:
        return _RANGES.get(self.name, Range()) if {"integer", "number"} & set(self.types) else Range()

    def problem(self, raw: Any) -> str | None:
        """The line about a value that is not allowed."""
        is_schedule = self.schedule == "any" and _json_type(raw) in (None, "string", "object", "array")
        if is_schedule and not callable(raw):
            try:
                schedule = parse_schedule(self.name, raw)
            except ValueError as error:
                return str(error)
            is_allowed = not isinstance(schedule, Schedule) or self.range.contains(schedule.extremes)
        else:
            is_allowed = is_schedule or self._allows(raw)
        if is_allowed:
            return None
        if isinstance(raw, float) and not math.isfinite(raw) and "number" in self.types:
            return f"{self.name}={raw!r} must be a finite number."
        names = [choice for choice in self.choices if isinstance(choice, str)]
        return f"{self.name}={raw!r} must be {self.allowed}{suggestion(raw, names)}"

    def read(self, raw: Any) -> Any:
        """An allowed value, with numbers as the algorithm takes them: YAML reads ``1e5`` as a string."""
        if _json_type(raw) not in ("number", "string") or self.schedule or "string" in self.types:
            return raw
        return to_number(raw) if "number" in self.types else to_integer(raw) if "integer" in self.types else raw

    @property
    def allowed(self) -> str:
        limits = f", {self.range}" if self.range != Range() else ""
        words = [_WORDS[kind] + (limits if kind in ("integer", "number") else "") for kind in self.types]
        if self.length is not None:
            words = [f"{word} of {self.length}" if word == _WORDS["array"] else word for word in words]
        words += [repr(choice) for choice in self.choices if isinstance(choice, str)]
        words += {"any": ["a schedule of such numbers"], "lin": ["a schedule such as 'lin_0.001'"]}.get(
            self.schedule, []
        )
        words += [f"{cls.__name__}, which only Python code can give" for cls in self.classes]
        return " or ".join(words)

    def _allows(self, raw: Any) -> bool:
        if not self.types and not self.choices and not self.classes:
            return True
        if isinstance(raw, self.classes) or (isinstance(raw, type) and issubclass(raw, self.classes)):
            return True
        kind = _json_type(raw)
        takes_numbers = bool({"integer", "number"} & set(self.types))
        if takes_numbers and kind in ("integer", "number"):
            return self._allows_number(float(raw))
        if takes_numbers and kind == "string" and "string" not in self.types:
            return self._allows_text(raw)
        has_length = kind != "array" or self.length in (None, len(raw))
        return (kind in self.types and has_length) or raw in self.choices

    def _allows_number(self, number: float) -> bool:
        is_finite = math.isfinite(number) or self.name in _MAY_BE_INFINITE
        return is_finite and ("number" in self.types or number.is_integer()) and self.range.contains((number,))

    def _allows_text(self, raw: str) -> bool:
        number = raw.removeprefix("lin_") if self.schedule == "lin" else raw
        try:
            return (self.reads_text or number != raw) and self._allows_number(to_number(number))
        except ValueError:
            return False


#: The first keys in canonical order; those of the algorithm follow
FIRST_KEYS = ("n_envs", "n_timesteps", "policy")
#: RL Zoo's own keys, and the types of their values; strings may be Python code
_SECTION_KEYS: dict[str, tuple[str, ...]] = {
    "n_envs": ("integer",),
    "n_timesteps": ("number",),
    "policy": ("string",),
    "normalize": ("boolean", "object", "string"),
    "frame_stack": ("integer",),
    "env_kwargs": ("object", "null"),
    "env_wrapper": (),
    "vec_env_wrapper": (),
    "monitor_kwargs": ("object", "string"),
    "callback": (),
}
_PYTHON_CODE = ("policy_kwargs", "replay_buffer_class", "replay_buffer_kwargs")


@functools.cache
def section_parameters(algorithm: type[BaseAlgorithm]) -> dict[str, Parameter]:
    """Every key of a section for an algorithm except ``ext``, in canonical order."""
    schedulable: tuple[str, ...] | None = getattr(algorithm, "schedulable", None)
    of_zoo = {name: Parameter(name, kinds, reads_text=schedulable is not None) for name, kinds in _SECTION_KEYS.items()}
    of_algorithm = {
        name: parameter_from(parameter, schedulable)
        for name, parameter in inspect.signature(algorithm.__init__).parameters.items()
        if name not in ("self", "policy", *SET_BY_FLAGS) and not name.startswith("_")
    }
    if "action_noise" in of_algorithm:
        for name, kind in (("noise_type", "string"), ("noise_std", "number")):
            of_zoo[name] = Parameter(name, (kind,), reads_text=False)
    return {name: of_zoo.pop(name) for name in FIRST_KEYS} | of_algorithm | of_zoo


def parameter_from(parameter: inspect.Parameter, schedulable: tuple[str, ...] | None = None) -> Parameter:
    """:param schedulable: parameters that our algorithms take as schedules; ``None`` for anything that is not ours"""
    name, annotation = parameter.name, parameter.annotation
    arms = get_args(annotation) if get_origin(annotation) in (Union, types.UnionType) else (annotation,)
    kinds: list[str] = ["string"] if name in _PYTHON_CODE else []
    choices: list[Any] = []
    classes: list[type] = []
    takes_function, length = False, None
    for arm in arms:
        origin = get_origin(arm) or arm
        if origin is Literal:
            choices += get_args(arm)
        elif origin in _JSON_TYPES:
            kinds.append(_JSON_TYPES[origin])
            length = len(get_args(arm)) if origin is tuple and get_args(arm) and ... not in get_args(arm) else length
        elif origin is Callable:
            takes_function = True
        elif origin is not inspect.Parameter.empty and isinstance(origin, type):
            classes += get_args(arm) if origin is type else [origin]
        else:
            return Parameter(name, default=parameter.default)
    schedule = "lin" if name in SCHEDULES else ""
    if schedulable is not None and (takes_function or name in schedulable):
        schedule = "any"
    reads_text = schedulable is not None
    return Parameter(
        name, tuple(kinds), tuple(choices), tuple(classes), schedule, reads_text, parameter.default, length
    )
