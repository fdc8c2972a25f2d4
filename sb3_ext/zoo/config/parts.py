"""Checks what a section names: policies, wrappers, callbacks, and the arguments that they and the environment take."""

import inspect
import re
import warnings
from collections.abc import Callable, Container, Iterator, Mapping
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecNormalize

from sb3_ext.common.algorithm import ExtAlgorithm
from sb3_ext.common.import_path import import_class, import_object
from sb3_ext.common.names import check_choice, nearest
from sb3_ext.common.policies import resolve_policy_kwargs
from sb3_ext.zoo.config.schema import parameter_from

__all__ = [
    "argument_problems",
    "entry_problems",
    "env_problems",
    "normalize_problems",
    "option_problems",
    "policy_problems",
    "run_code",
]

#: Path below the section, and the line about it
Found = Iterator[tuple[tuple[Any, ...], str]]


def run_code(key: str, raw: Any) -> Any:
    """A string is Python code, which RL Zoo evaluates."""
    if not isinstance(raw, str):
        return raw
    # Importing it imports zoo/experiment.py, which imports the check that imports this file
    import rl_zoo3.exp_manager

    try:
        return eval(raw, dict(vars(rl_zoo3.exp_manager)))
    # The code may raise anything
    except Exception as error:
        reason = getattr(error, "msg", None) or error
        raise ValueError(f"{key}={raw!r} is not a mapping or Python code such as dict(…): {reason}.") from None


def argument_problems(name: str, function: Callable[..., Any], given: Any, positional: int = 0) -> Iterator[str]:
    """
    Lines about arguments that a function or class does not take or needs.

    :param positional: how many arguments it gets besides
    """
    if not isinstance(given, Mapping):
        yield f"{name} has the arguments {given!r}: expected a mapping."
        return
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return  # of a compiled class
    parameters = list(signature.parameters.values())[positional:]
    known = [p.name for p in parameters if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in parameters)
    unknown = [] if takes_any else [key for key in given if key not in known]
    yield from (f"{name} has no argument {key!r}: {_nearest(key, known)}" for key in unknown)
    for p in parameters:
        if isinstance(given.get(p.name), str) and _takes_only_numbers(p):
            yield f"{name}: {parameter_from(p).problem(given[p.name])}"
    for p in [] if unknown else parameters:
        if p.name not in given and p.default is p.empty and p.kind not in (p.VAR_KEYWORD, p.VAR_POSITIONAL):
            yield f"{name} needs the argument {p.name!r}."


def _takes_only_numbers(parameter: inspect.Parameter) -> bool:
    """Annotations of others are not always exact, but text is never a number to them."""
    read = parameter_from(parameter)
    is_number = bool(read.types) and set(read.types) <= {"boolean", "integer", "number", "null"}
    return is_number and not read.choices and not read.classes and not read.schedule


def _nearest(key: Any, known: list[str]) -> str:
    return nearest(str(key), known) if known else "it takes none."


def policy_problems(algorithm: type[BaseAlgorithm], section: Mapping[str, Any]) -> Found:
    policy, found = section.get("policy"), None
    try:
        if isinstance(policy, str) and "." in policy:
            found = import_class("policy", policy, BasePolicy)
        elif isinstance(policy, str):
            check_choice("policy", policy, algorithm.policy_aliases)
            found = algorithm.policy_aliases[policy]
    except ValueError as error:
        yield ("policy",), str(error)
        if "." not in str(policy):
            found = next(iter(algorithm.policy_aliases.values()))  # they take the same arguments
    try:
        kwargs = run_code("policy_kwargs", section.get("policy_kwargs") or {})
        if not isinstance(kwargs, Mapping):
            raise ValueError(f"policy_kwargs={kwargs!r} must be a mapping.")
        if hasattr(algorithm, "schedulable") and found is not None:
            resolve_policy_kwargs(found, dict(kwargs))
    except (TypeError, ValueError) as error:
        yield ("policy_kwargs",), str(error)


def option_problems(algorithm: type[BaseAlgorithm], section: Mapping[str, Any], wrong: Container[Any]) -> Found:
    """
    What an algorithm of ours finds out about values together, such as bounds in the wrong order.

    :param wrong: keys that have a problem already
    """
    if not issubclass(algorithm, ExtAlgorithm):
        return
    taken = [name for name in inspect.signature(algorithm.__init__).parameters if name in section]
    given = {name: section[name] for name in taken if name != "policy_kwargs" and name not in wrong}
    try:
        with warnings.catch_warnings(action="ignore"):  # they are for the training
            algorithm.check_options(**{"policy": next(iter(algorithm.policy_aliases)), **given})
    except (AssertionError, TypeError, ValueError) as error:
        words = re.findall(r"\w+", str(error))
        if not any(word in wrong for word in words):
            yield tuple(word for word in words if word in section)[:1], " ".join(str(error).split())


def entry_problems(key: str, raw: Any) -> Found:
    """``env_wrapper``, ``vec_env_wrapper`` or ``callback``: an import path, with arguments or without, or several."""
    if raw is None:
        return
    entries = raw if isinstance(raw, list) else [raw]
    for index, entry in enumerate(entries):
        path = (key, index) if isinstance(raw, list) else (key,)
        for line in _problems_of_entry(key, entry):
            yield path, line


def _problems_of_entry(key: str, entry: Any) -> Iterator[str]:
    if isinstance(entry, (type, BaseCallback)):
        return  # Python code gave it
    if isinstance(entry, Mapping) and len(entry) != 1:
        names = ", ".join(map(str, entry))
        yield f"{key}: {names} are in one item of the list: put a dash before each, and indent the arguments below it."
        return
    name, kwargs = next(iter(entry.items())) if isinstance(entry, Mapping) else (entry, {})
    if not isinstance(name, str) or "." not in name:
        yield f"{key}={name!r} must be an import path of module and name, such as gymnasium.wrappers.TimeLimit."
        return
    try:
        if key == "callback":
            found = import_class(key, name, BaseCallback)
        else:
            found = import_object(key, name, callable, "wrapper")
            if not callable(found):
                raise ValueError(f"{key}: {name} is {found!r}: expected a class or a function.")
    except ValueError as error:
        yield str(error)
        return
    yield from argument_problems(f"{key}: {name}", found, kwargs, positional=int(key != "callback"))


def normalize_problems(section: Mapping[str, Any]) -> Found:
    """``normalize`` and ``monitor_kwargs``."""
    for key, function in (("normalize", VecNormalize), ("monitor_kwargs", Monitor)):
        raw = section.get(key)
        try:
            kwargs = run_code(key, raw)
        except ValueError as error:
            yield (key,), str(error)
            continue
        if isinstance(raw, str) or isinstance(kwargs, Mapping):
            for line in argument_problems(key, function, kwargs, positional=1):
                yield (key,), line


def env_problems(env_id: str, kwargs: Any) -> Iterator[str]:
    """Lines about arguments that an environment does not take."""
    spec = gym.registry.get(env_id)
    if spec is None or not kwargs:
        return
    if not isinstance(kwargs, Mapping):
        yield f"{kwargs!r} must be a mapping."
        return
    try:
        creator = spec.entry_point if callable(spec.entry_point) else load_env_creator(str(spec.entry_point))
        # A package that is missing is reported when the environment is made
    except ImportError:
        return
    of_make = {*inspect.signature(gym.make).parameters, "render_mode"}
    own = {key: value for key, value in kwargs.items() if key not in of_make}
    yield from argument_problems(env_id, creator, {**spec.kwargs, **own})
