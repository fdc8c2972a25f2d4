"""A value inside a section by its path, such as ``policy_kwargs.net_arch`` or ``env_wrapper.PongShaping.terms.hit``."""

from __future__ import annotations

import ast
import copy
import inspect
import re
from collections.abc import Callable, Mapping
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from sb3_ext.common.import_path import import_object
from sb3_ext.common.names import nearest
from sb3_ext.zoo.config.schema import section_parameters
from sb3_ext.zoo.options import read_ext
from sb3_ext.zoo.registry import ALGORITHMS, algorithm_class

__all__ = ["MISSING", "NoSuchPath", "default_of", "read_value", "remove_value", "write_value"]

MISSING: Any = object()
#: Keys whose value may be Python code, which RL Zoo evaluates
_CODE_KEYS = ("policy_kwargs", "normalize", "monitor_kwargs", "replay_buffer_kwargs")
#: Keys whose value is an import path, a mapping of one to its arguments, or a list of these
_CLASS_KEYS = ("env_wrapper", "vec_env_wrapper", "callback")
#: What the code may name: RL Zoo imports both
_NAME_IN_CODE = re.compile(r"(nn|th)(\.\w+)+")
#: Of RL Zoo's keys. An action noise of 0 is none
_DEFAULTS = {"n_envs": 1, "normalize": False, "frame_stack": None, "noise_type": "normal", "noise_std": 0.0}


class NoSuchPath(ValueError):
    """The path leads through something that the section does not have, such as a wrapper."""


class _Code(str):
    """Python code that is not a literal, such as ``nn.ReLU``."""

    __slots__ = ()


def read_value(section: Mapping[str, Any], key: str) -> Any:
    """:return: ``MISSING`` if the section does not set it"""
    first, *parts = key.split(".")
    tree = _open(first, section.get(first, MISSING))
    for part in parts:
        if tree is MISSING or tree is None:
            return MISSING
        tree = _child(tree, part, key)
    return tree


def write_value(section: Mapping[str, Any], key: str, value: Any) -> dict[str, Any]:
    """:return: a new section"""
    return _edited(section, key, lambda container, last: container.__setitem__(last, copy.deepcopy(value)))


def remove_value(section: Mapping[str, Any], key: str) -> dict[str, Any]:
    """:return: a new section without the value"""
    if read_value(section, key) is MISSING:
        return copy.deepcopy(dict(section))
    return _edited(section, key, lambda container, last: container.pop(last))


def _edited(section: Mapping[str, Any], key: str, edit: Callable[[Any, Any], Any]) -> dict[str, Any]:
    new = copy.deepcopy(dict(section))
    first, *parts = key.split(".")
    if not parts:
        edit(new, first)
        return new
    raw = new.get(first)
    opened = _open(first, raw)
    tree = container = {} if opened is None else opened
    for part in parts[:-1]:
        below = _child(container, part, key)
        if below is MISSING or below is None:
            below = container[part] = {}
        container = below
    _child(container, parts[-1], key)
    edit(container, int(parts[-1]) if isinstance(container, list) else parts[-1])
    new[first] = _close(first, tree, raw)
    return new


def _child(tree: Any, part: str, key: str) -> Any:
    first = key.split(".")[0]
    if isinstance(tree, _Classes) and part not in tree:
        known = nearest(part, list(tree)) if tree else "it has none."
        raise NoSuchPath(f"{key}: the section has no {first} {part!r}: {known}")
    if isinstance(tree, Mapping):
        return tree.get(part, MISSING)
    if isinstance(tree, list) and part.isdecimal() and int(part) < len(tree):
        return tree[int(part)]
    raise NoSuchPath(f"{key}: the section has {tree!r} where {part!r} is looked for.")


class _Classes(dict[str, Any]):
    """Arguments of wrappers or callbacks by the names of their classes, in their order; see ``_CLASS_KEYS``."""

    def __init__(self, raw: Any) -> None:
        super().__init__()
        self.paths: dict[str, str] = {}
        for entry in raw if isinstance(raw, list) else [] if raw in (None, MISSING) else [raw]:
            path, arguments = next(iter(entry.items())) if isinstance(entry, Mapping) else (entry, {})
            name = str(path).rpartition(".")[2]
            while name in self:
                name += "_"
            self[name], self.paths[name] = copy.deepcopy(arguments) or {}, path

    def as_list(self) -> list[Any]:
        return [{self.paths[name]: arguments} if arguments else self.paths[name] for name, arguments in self.items()]


def _open(first: str, raw: Any) -> Any:
    """The value of a key as mappings and lists."""
    if first in _CLASS_KEYS:
        return _Classes(raw)
    if isinstance(raw, str) and first in _CODE_KEYS:
        try:
            return _from_code(ast.parse(raw.strip(), mode="eval").body)
        except SyntaxError as error:
            raise NoSuchPath(f"{first}={raw!r} is not Python code: {error.msg}.") from None
    return raw


def _close(first: str, tree: Any, raw: Any) -> Any:
    if isinstance(tree, _Classes):
        return tree.as_list()
    if first not in _CODE_KEYS:
        return tree
    code = _to_code(tree)
    return code if isinstance(raw, str) or isinstance(tree, str) or _names_in(tree) else tree


def _from_code(node: ast.expr) -> Any:
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "dict" and not node.args:
        return {str(keyword.arg): _from_code(keyword.value) for keyword in node.keywords}
    if isinstance(node, ast.Dict):
        names = [name.value if isinstance(name, ast.Constant) else name for name in node.keys]
        if all(isinstance(name, str) for name in names):
            return {str(name): _from_code(value) for name, value in zip(names, node.values, strict=True)}
    try:
        value = ast.literal_eval(node)
    except ValueError:
        return _Code(ast.unparse(node))
    return list(value) if isinstance(value, tuple) else value


def _to_code(tree: Any) -> str:
    if isinstance(tree, Mapping) and all(str(name).isidentifier() for name in tree):
        return f"dict({', '.join(f'{name}={_to_code(value)}' for name, value in tree.items())})"
    if isinstance(tree, list):
        return f"[{', '.join(map(_to_code, tree))}]"
    return str(tree) if _is_code(tree) else repr(tree)


def _is_code(tree: Any) -> bool:
    return isinstance(tree, _Code) or (isinstance(tree, str) and _NAME_IN_CODE.fullmatch(tree) is not None)


def _names_in(tree: Any) -> bool:
    below = tree.values() if isinstance(tree, Mapping) else tree if isinstance(tree, list) else ()
    return _is_code(tree) or any(map(_names_in, below))


def default_of(section: Mapping[str, Any], key: str, algo: str, env_id: str) -> Any:
    """The value that a missing key has, from the signature of what takes it; ``MISSING`` where there is none."""
    first, *parts = key.split(".")
    default: Any = MISSING
    if not parts:
        parameter = section_parameters(algorithm_class(algo))[first]
        default = parameter.default if parameter.has_default else _DEFAULTS.get(first, MISSING)
    elif first == "ext":
        default = read_ext(section.get("ext"), algo in ALGORITHMS)
        for part in parts:
            default = getattr(default, part, MISSING)
    else:
        taker, names = _taker(section, first, parts, algo, env_id)
        for base in taker.__mro__ if isinstance(taker, type) else (taker,):
            function = vars(base).get("__init__") if isinstance(base, type) else base
            found = inspect.signature(function).parameters.get(".".join(names)) if function is not None else None
            if found is not None and default is MISSING and found.default is not found.empty:
                default = f"nn.{found.default.__name__}" if isinstance(found.default, type) else found.default
    default = list(default) if isinstance(default, tuple) else default
    return default if default is None or isinstance(default, (bool, int, float, str, list, dict)) else MISSING


def _taker(section: Mapping[str, Any], first: str, parts: list[str], algo: str, env_id: str) -> tuple[Any, list[str]]:
    """The class or function that gets the arguments of a key, and the path below."""
    if first in _CLASS_KEYS:
        path = _Classes(section.get(first)).paths[parts[0]]
        return import_object(first, path, callable, "class"), parts[1:]
    if first == "policy_kwargs":
        policy, aliases = str(section.get("policy")), algorithm_class(algo).policy_aliases
        if "." in policy:
            return import_object("policy", policy, callable, "policy"), parts
        return aliases.get(policy) or next(iter(aliases.values())), parts  # they take the same arguments
    if first == "env_kwargs" and env_id in gym.registry:
        creator = gym.registry[env_id].entry_point
        return creator if callable(creator) else load_env_creator(str(creator)), parts
    return None, parts
