"""A section as text, for a hyperparameter file."""

from collections.abc import Mapping
from typing import Any

import yaml
from torch import nn

from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.config.check import section_keys
from sb3_ext.zoo.config.format import format_text

__all__ = ["section_text"]


def section_text(env_id: str, algo: str, section: Mapping[str, Any]) -> str:
    """
    :return: YAML, with the keys in canonical order
    :raises UsageError: when a value can't be written, such as a function from a Python file
    """
    written = {key: _plain(key, value) for key, value in section.items()}
    return format_text(yaml.safe_dump({env_id: written}, allow_unicode=True), section_keys(algo))


def _plain(key: str, value: Any) -> Any:
    try:
        yaml.safe_dump(value)
    except yaml.YAMLError:
        try:
            return _code(value)
        except TypeError as error:
            raise UsageError(f"{key}={value!r} can't be written as YAML: {error}.") from None
    return value


def _code(value: Any) -> str:
    """Python that RL Zoo evaluates: the samplers of stock algorithms choose classes."""
    if isinstance(value, Mapping):
        return f"dict({', '.join(f'{key}={_code(item)}' for key, item in value.items())})"
    name = getattr(value, "__name__", "")
    if getattr(nn, name, None) is value:
        return f"nn.{name}"
    if isinstance(value, bool | int | float | str | list | tuple | None):
        return repr(value)
    raise TypeError(f"{type(value).__name__} has no notation")
