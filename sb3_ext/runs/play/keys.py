"""Keys for playing: which of them means which action. Their names are the same in a window and in a terminal."""

from __future__ import annotations

import re
import string
from collections.abc import Collection, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

from sb3_ext.common.names import nearest
from sb3_ext.common.usage_error import UsageError

__all__ = ["NAMED_KEYS", "Binding", "KeyMap", "make_key_map"]

NAMED_KEYS = ("left", "right", "up", "down", "space", "enter", "tab", "backspace")
#: They mean the same as arrows, unless they mean something else
_LIKE_ARROWS = {"a": "left", "d": "right", "w": "up", "s": "down"}
#: Actions that change nothing, and those that have no direction in their name
_IDLE = ("noop", "nothing", "no torque", "stay", "none")
_USUAL = {"main engine": "up", "gas": "up", "brake": "down", "torque -1": "left", "torque +1": "right"}
#: For components of actions, one after the other: the key that lowers it, and the one that raises it
_PAIRS = (("left", "right"), ("down", "up"), ("j", "l"), ("k", "i"), ("f", "h"), ("g", "t"))
#: Without q, which quits
_FREE = string.digits[1:] + "0" + string.ascii_lowercase.replace("q", "")


class Binding(NamedTuple):
    """
    :param keys: that are held together
    :param label: the action, for people
    :param component: of the action that gets the value; ``None``: the value is the action
    """

    keys: frozenset[str]
    label: str
    component: int | None
    value: float


class KeyMap:
    """
    :param idle: action without a key; ``None`` if each action does something
    """

    def __init__(self, space: spaces.Space[Any], bindings: Sequence[Binding], idle: np.ndarray | None) -> None:
        self._space = space
        self._bindings = bindings
        self.idle = idle
        bound = {key for binding in bindings for key in binding.keys}
        self._aliases = {key: arrow for key, arrow in _LIKE_ARROWS.items() if key not in bound}

    def action(self, held: Collection[str]) -> np.ndarray | None:
        """:return: what the held keys mean together; ``None`` if they mean nothing"""
        pressed = {self._aliases.get(key, key) for key in held}
        meant = [binding for binding in self._bindings if binding.keys <= pressed]
        if not meant:
            return None
        if meant[0].component is None:
            return np.array(max(meant, key=lambda binding: len(binding.keys)).value, dtype=self._space.dtype)
        assert self.idle is not None
        action = self.idle.copy()
        for binding in meant:
            assert binding.component is not None
            action.flat[binding.component] = binding.value
        return action

    def is_bound(self, key: str) -> bool:
        return any(self._aliases.get(key, key) in binding.keys for binding in self._bindings)

    def describe(self) -> str:
        """In a line, such as ``left or a: left, right or d: right``."""
        also = {arrow: key for key, arrow in self._aliases.items()}
        texts = []
        for binding in self._bindings:
            keys = sorted(binding.keys, key=lambda key: (key == "space", key))
            other = f" or {also[keys[0]]}" if len(keys) == 1 and keys[0] in also else ""
            texts.append(f"{'+'.join(keys)}{other}: {binding.label}")
        return ", ".join(texts)


def make_key_map(
    space: spaces.Space[Any], labels: Sequence[str], components: Sequence[str], given: Sequence[str] = ()
) -> KeyMap:
    """
    :param labels: of discrete actions, if they have names
    :param components: of the numbers of other actions, if they have names
    :param given: such as ``a=left``, ``w+space=3`` or, for components, ``a=torque:-1``; other actions keep their keys
    """
    idle: np.ndarray | None = None
    if isinstance(space, spaces.Discrete):
        names = list(labels) or [f"action {index}" for index in range(int(space.n))]
        usual = list(_bind_actions(names, int(space.start)))
        quiet = [index for index, name in enumerate(names) if name.lower() in _IDLE]
        idle = np.array(quiet[0] + space.start, dtype=space.dtype) if quiet else None
        chosen = [_read_action(word, names, int(space.start)) for word in given]
    elif isinstance(space, (spaces.Box, spaces.MultiDiscrete, spaces.MultiBinary)):
        low, high = _bounds(space)
        names = list(components) or [f"number {index}" for index in range(low.size)]
        idle = np.clip(np.zeros(space.shape), low, high).astype(space.dtype)
        usual = list(_bind_components(names, low.ravel(), high.ravel(), isinstance(space, spaces.Box)))
        chosen = [_read_component(word, names, low.ravel(), high.ravel()) for word in given]
    else:
        raise UsageError(f"Actions in {space} can't be chosen with keys.")
    keys, meanings = {binding.keys for binding in chosen}, {binding[2:] for binding in chosen}
    kept = [binding for binding in usual if binding.keys not in keys and binding[2:] not in meanings]
    return KeyMap(space, [*chosen, *kept], idle)


def _bind_actions(names: Sequence[str], start: int) -> Iterator[Binding]:
    bound: dict[int, frozenset[str]] = {}
    for index, name in enumerate(names):
        keys = _direction(name.lower())
        if keys and keys not in bound.values():
            bound[index] = keys
    taken = {key for keys in bound.values() for key in keys}
    taken |= {key for key, arrow in _LIKE_ARROWS.items() if arrow in taken}
    has_names = names[0] != "action 0"
    for index, name in enumerate(names):
        if index not in bound:
            # The first letter of its name that is free; for numbers, the number
            wanted = name.lower() if has_names else str(index)
            free = [key for key in (*wanted, *_FREE) if key in _FREE and key not in taken]
            if not free:
                continue  # --keys can bind it
            bound[index] = frozenset(free[:1])
            taken.add(free[0])
    for index, keys in bound.items():
        yield Binding(keys, names[index], None, index + start)


def _direction(name: str) -> frozenset[str]:
    """Keys for a name such as ``left``, ``UPRIGHTFIRE``, ``steer left`` or ``main engine``."""
    if name in _USUAL:
        return frozenset({_USUAL[name]})
    found = re.fullmatch(r"(up|down)?(left|right)?(fire)?", name.removeprefix("steer ").removesuffix(" engine"))
    parts = () if found is None else found.groups()
    return frozenset("space" if part == "fire" else part for part in parts if part)


def _bind_components(names: Sequence[str], low: np.ndarray, high: np.ndarray, is_box: bool) -> Iterator[Binding]:
    pairs = list(_PAIRS)
    free = list(_FREE)
    for index, name in enumerate(names):
        if not is_box:
            for value in range(int(low[index]) + 1, int(high[index]) + 1):
                if free:
                    yield Binding(frozenset({free.pop(0)}), f"{name} = {value}", index, value)
            continue
        usual = next((pair for pair in pairs if _USUAL.get(name) in pair), None)
        if not pairs:
            return
        pair = usual or pairs[0]
        one_sided = low[index] >= 0
        if one_sided and name in _USUAL:
            yield Binding(frozenset({_USUAL[name]}), f"{name} +", index, float(high[index]))
            continue
        pairs.remove(pair)
        if not one_sided:
            yield Binding(frozenset({pair[0]}), f"{name} -", index, float(low[index]))
        yield Binding(frozenset({pair[1]}), f"{name} +", index, float(high[index]))


def _bounds(space: spaces.Space[Any]) -> tuple[np.ndarray, np.ndarray]:
    """Lowest and highest values; an action without bounds goes from -1 to 1."""
    if isinstance(space, spaces.Box):
        return np.where(np.isfinite(space.low), space.low, -1.0), np.where(np.isfinite(space.high), space.high, 1.0)
    assert space.shape is not None
    high = space.nvec - 1 if isinstance(space, spaces.MultiDiscrete) else np.ones(space.shape)
    return np.zeros(space.shape), high


def _split(word: str) -> tuple[frozenset[str], str]:
    keys, equals, meaning = word.rpartition("=")
    if not equals or not keys or not meaning:
        raise UsageError(f"--keys {word}: expected KEY=ACTION, such as a=left or w+space=3.")
    named = frozenset(key.lower() for key in keys.split("+"))
    for key in named:
        if key not in NAMED_KEYS and not (len(key) == 1 and key.isprintable() and key != " "):
            raise UsageError(f"--keys {word}: there is no key {key!r}: a character, or {nearest(key, NAMED_KEYS)}")
    return named, meaning


def _read_action(word: str, names: Sequence[str], start: int) -> Binding:
    keys, meaning = _split(word)
    lower = [name.lower() for name in names]
    if meaning.lower() in lower:
        index = lower.index(meaning.lower())
    elif meaning.isdecimal() and start <= int(meaning) < start + len(names):
        index = int(meaning) - start
    else:
        known = ", ".join(f"{number + start} ({name})" for number, name in enumerate(names[:20]))
        raise UsageError(f"--keys {word}: there is no action {meaning!r}: {known}.")
    return Binding(keys, names[index], None, index + start)


def _read_component(word: str, names: Sequence[str], low: np.ndarray, high: np.ndarray) -> Binding:
    keys, meaning = _split(word)
    name, _, text = meaning.rpartition(":")
    index = int(name) if name.isdecimal() else list(names).index(name) if name in names else -1
    try:
        value = float(text)
    except ValueError:
        value = np.nan
    if not 0 <= index < len(names) or not low[index] <= value <= high[index]:
        known = "; ".join(
            f"{number} or {name!r} from {low[number]:g} to {high[number]:g}" for number, name in enumerate(names[:10])
        )
        raise UsageError(f"--keys {word}: expected NUMBER:VALUE of an action, such as 0:{high[0]:g}. It has: {known}.")
    return Binding(keys, f"{names[index]} = {value:g}", index, value)
