"""Errors for names that don't exist: every one says what was given, what is allowed, and the nearest valid name."""

import difflib
import functools
import inspect
from collections.abc import Callable, Collection, Mapping
from typing import Any, TypeVar

__all__ = ["arguments_of", "check_choice", "check_keywords", "checked_keywords", "nearest", "suggestion"]

Function = TypeVar("Function", bound=Callable[..., Any])


def nearest(name: str, known: Collection[str]) -> str:
    """:return: the end of an error about an unknown name: the nearest known name, or all of them when none is near"""
    close = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
    return f"did you mean {close[0]!r}?" if close else f"known: {', '.join(sorted(set(known)))}."


def suggestion(value: object, allowed: Collection[str]) -> str:
    """:return: the end of an error that lists the allowed values: the nearest of them, or a full stop"""
    close = difflib.get_close_matches(str(value), allowed, n=1, cutoff=0.5)
    return f": did you mean {close[0]!r}?" if close else "."


def check_choice(option: str, value: object, allowed: Collection[str]) -> None:
    """:raises ValueError: when the option has another value than those allowed"""
    if value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ValueError(f"{option}={value!r} is not one of {choices}{suggestion(value, allowed)}")


def check_keywords(owner: str, given: Collection[str], known: Collection[str]) -> None:
    """:raises TypeError: when one of the given keywords is not known"""
    for name in given:
        if name not in known:
            public = [other for other in known if not other.startswith("_") and other not in ("self", "args", "kwargs")]
            raise TypeError(f"{owner} has no parameter {name!r}: {nearest(name, public)}")


def checked_keywords(function: Function) -> Function:
    """
    Decorate a function or a constructor so that the error for an unknown keyword suggests the nearest parameter, also
    one of a subclass that passes its ``**kwargs`` on. Static tools and ``inspect.signature`` see it as it is.
    """
    own = list(inspect.signature(function).parameters)

    @functools.wraps(function)
    def checked(*args: Any, **kwargs: Any) -> Any:
        owner, known = function.__name__, own
        if owner == "__init__":
            owner, known = type(args[0]).__name__, [*own, *inspect.signature(type(args[0]).__init__).parameters]
        check_keywords(owner, kwargs, known)
        return function(*args, **kwargs)

    return checked  # type: ignore[return-value]


def arguments_of(init: Callable[..., None], given: Mapping[str, Any]) -> dict[str, Any]:
    """:return: those of the given arguments that another constructor takes, without ``self``"""
    return {name: given[name] for name in inspect.signature(init).parameters if name in given and name != "self"}
