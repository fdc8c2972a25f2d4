"""Errors for names that don't exist: every one says what was given, what is allowed, and the nearest valid name."""

from __future__ import annotations

import difflib
import functools
import inspect
import re
import textwrap
from collections.abc import Callable, Collection
from typing import Any, TypeVar

__all__ = ["check_choice", "check_keywords", "described_parameters", "extends", "nearest"]

Init = TypeVar("Init", bound=Callable[..., None])


def nearest(name: str, known: Collection[str]) -> str:
    """
    :param name: a name that is not known
    :param known: the names that are
    :return: a sentence to end an error with: the nearest known name, or all of them when none is near
    """
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(set(known)))}."


def check_choice(option: str, value: object, allowed: Collection[str]) -> None:
    """
    :param option: name of the option, for the error
    :param value: its value
    :param allowed: the values it may have
    :raises ValueError: when it has another one
    """
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        close = difflib.get_close_matches(value, allowed, n=1, cutoff=0.5) if isinstance(value, str) else []
        hint = f": did you mean {close[0]!r}?" if close else "."
        raise ValueError(f"{option}={value!r} is not one of {choices}{hint}")


def check_keywords(owner: str, given: Collection[str], known: Collection[str]) -> None:
    """
    :param owner: what takes the keywords, for the error
    :param given: the keywords it was given
    :param known: the keywords it takes
    :raises TypeError: when one is not known
    """
    for name in given:
        if name not in known:
            public = [other for other in known if not other.startswith("_") and other not in ("self", "args", "kwargs")]
            raise TypeError(f"{owner} has no parameter {name!r}: {nearest(name, public)}")


def extends(base_init: Callable[..., None], without: Collection[str] = ()) -> Callable[[Init], Init]:
    """
    Let a constructor with ``**kwargs`` take, beside its own parameters, those of the constructor it hands them to.

    Its signature then shows both (in ``help()``, in editors that look at live objects), and an unknown keyword gets an
    error with the nearest name instead of travelling up the class hierarchy.

    :param base_init: the constructor that receives ``**kwargs``
    :param without: its parameters that are not for the caller to set
    """
    inherited = [p for p in inspect.signature(base_init).parameters.values() if p.name not in ("self", *without)]

    def decorate(init: Init) -> Init:
        signature = _joined(inspect.signature(init), inherited)

        @functools.wraps(init)
        def checked_init(self: Any, *args: Any, **kwargs: Any) -> None:
            of_subclass = inspect.signature(type(self).__init__).parameters
            check_keywords(type(self).__name__, kwargs, [*signature.parameters, *of_subclass])
            init(self, *args, **kwargs)

        checked_init.__signature__ = signature  # type: ignore[attr-defined]
        return checked_init  # type: ignore[return-value]

    return decorate


def _joined(own: inspect.Signature, inherited: list[inspect.Parameter]) -> inspect.Signature:
    """The base's parameters first where ``*args`` is handed to it too, and by keyword only where it is not."""
    parameters = [p for p in own.parameters.values() if p.kind is not inspect.Parameter.VAR_KEYWORD]
    added = [p for p in inherited if p.name not in own.parameters]
    rest = [p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY]
    if any(p.kind is inspect.Parameter.VAR_POSITIONAL for p in parameters):
        positional = [p for p in parameters if p.kind is inspect.Parameter.POSITIONAL_OR_KEYWORD]
        return own.replace(parameters=[*positional, *added, *rest])
    return own.replace(parameters=[*parameters, *(p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in added)])


def described_parameters(cls: type) -> str:
    """
    :param cls: an algorithm whose docstring has ``:param …:`` lines
    :return: those lines, without policy and environment, for the docstring of a class that takes the same parameters
    """
    text = inspect.cleandoc(cls.__doc__ or "")
    entries = re.split(r"^(?=:param )", text, flags=re.MULTILINE)[1:]
    kept = [entry.rstrip() for entry in entries if not entry.startswith((":param policy:", ":param env:"))]
    return textwrap.indent("\n".join(kept), "    ")
