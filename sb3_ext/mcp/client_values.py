"""What a client may set of a training: numbers, words and lists of them, for keys that neither name nor contain code.

RL Zoo evaluates strings of a section as Python and imports what it names. On a command line, the user decides that. A
client could be told by anybody's text to do it. So it gets the keys of the algorithm and of the environment, with
values in which nothing can be evaluated, imported or read as a path.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Any

from sb3_ext.common.names import nearest
from sb3_ext.common.usage_error import UsageError

__all__ = ["EXT_KEYS", "REFUSED", "parameter_words", "plain_hyperparams"]

#: Keys of a section that a client can't set, and why
REFUSED = {
    **dict.fromkeys(("callback", "env_wrapper", "vec_env_wrapper"), "it imports code"),
    **dict.fromkeys(("monitor_kwargs", "replay_buffer_class", "replay_buffer_kwargs"), "it can contain code or paths"),
    "n_timesteps": "use the argument `steps`",
}
#: Topics under ``ext:`` that neither import code, nor name a run, nor log to another computer
EXT_KEYS = ("alerts", "checkpoints", "evaluation", "metrics", "native", "report", "threshold", "vec_env")
#: Only mappings: RL Zoo evaluates a string
_NO_STRING = ("env_kwargs", "normalize", "policy_kwargs")
#: Largest numbers; others may be up to the last
_LARGEST = {"n_envs": 256, "policy_kwargs": 10_000}
_LARGEST_NUMBER = 10_000_000
#: Without a dot, so it is no import path; or a number, also of a schedule
_WORD = re.compile(r"\w[\w-]{0,49}|(lin_)?[+-]?\d[\d.eE+-]{0,30}", re.ASCII)
_NAME = re.compile(r"[A-Za-z]\w{0,49}", re.ASCII)
_MAX_ITEMS, _MAX_DEPTH = 100, 5


def plain_hyperparams(given: Mapping[str, Any]) -> dict[str, Any]:
    """
    :param given: what a client sent, of JSON's types
    :return: values for ``-params``; options under ``ext`` with their whole path, so that the file's others stay
    :raises UsageError: when something is not allowed; whether the algorithm knows it is for the config's check to say
    """
    plain: dict[str, Any] = {}
    for key, value in given.items():
        _check_name("hyperparams", key)
        if key in REFUSED:
            raise UsageError(f"{key} can't be set here: {REFUSED[key]}.")
        if key in _NO_STRING and isinstance(value, str):
            raise UsageError(f"{key}={value[:50]!r} must not be a string, which would be evaluated: give a mapping.")
        _check(key, value, _LARGEST.get(key, _LARGEST_NUMBER), 1)
        plain |= dict(_ext_paths(value)) if key == "ext" else {key: value}
    return plain


def parameter_words(plain: Mapping[str, Any]) -> list[str]:
    """Words for a command line. RL Zoo evaluates what is after the colon."""
    return ["-params", *(f"{key}:{value!r}" for key, value in plain.items())] if plain else []


def _ext_paths(ext: Any) -> Iterator[tuple[str, Any]]:
    if not isinstance(ext, Mapping):
        raise UsageError(f"ext={ext!r} must be a mapping of options.")
    for topic, value in ext.items():
        if topic not in EXT_KEYS:
            raise UsageError(f"ext: {topic} can't be set here: {nearest(topic, EXT_KEYS)}")
        yield from _leaves(f"ext.{topic}", value)


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping) and value:
        for name, below in value.items():
            yield from _leaves(f"{path}.{name}", below)
    else:
        yield path, value


def _check(path: str, value: Any, largest: int, depth: int) -> None:
    if value is None or isinstance(value, bool):
        return
    if isinstance(value, int | float):
        _check_number(path, value, largest)
    elif isinstance(value, str):
        if _WORD.fullmatch(value) is None:
            advice = "only single words and numbers are allowed, no code, paths or names of modules"
            raise UsageError(f"{path}={value[:50]!r} can't be set here: {advice}.")
        _check_number(path, _number(value), largest)
    elif isinstance(value, list | Mapping):
        if len(value) > _MAX_ITEMS or depth > _MAX_DEPTH:
            raise UsageError(f"{path} is too large: at most {_MAX_ITEMS} entries and {_MAX_DEPTH} levels are allowed.")
        for name, below in value.items() if isinstance(value, Mapping) else enumerate(value):
            if isinstance(value, Mapping):
                _check_name(path, name)
            _check(f"{path}.{name}", below, largest, depth + 1)
    else:
        raise UsageError(f"{path} has the type {type(value).__name__}: expected a number, a word or a list of them.")


def _number(word: str) -> float:
    try:
        return float(word.removeprefix("lin_"))
    except ValueError:
        return 0.0  # it is none


def _check_number(path: str, value: float, largest: int) -> None:
    if not abs(value) <= largest:  # NaN is not
        raise UsageError(f"{path} must be a number of at most {largest:,}.")


def _check_name(path: str, name: Any) -> None:
    if not isinstance(name, str) or _NAME.fullmatch(name) is None:
        raise UsageError(f"{path}: {str(name)[:50]!r} is not a name.")
