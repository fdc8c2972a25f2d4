"""The state of ale-py's emulator.

Its own ``cloneState`` leaves out the last action, which a sticky action repeats. There is no way to ask for it, but its
effect can be compared with that of every other action.
"""

import functools
import re
from typing import Any, NamedTuple

import numpy as np

__all__ = ["AleState", "restore_ale", "save_ale"]

#: The C++ generator as text: 624 words, and the number of those that are used up (libc++ leaves it out)
_GENERATOR = re.compile(rb"(?:\d{1,10} ){623}\d")
_N_WORDS = 624


class AleState(NamedTuple):
    """
    :param emulator: ale-py's state, including its random numbers
    :param n_sticky: number of frames that will repeat the last action
    :param last_action: an action with the same effect as the last one, if there are such frames
    """

    emulator: Any
    n_sticky: int
    last_action: Any


def save_ale(ale: Any, is_continuous: bool = False) -> AleState:
    """
    Leaves the emulator as it is, except that its screen may be some frames ahead until the next action.

    :param is_continuous: whether actions also have a strength
    """
    state = ale.cloneState(include_rng=True)
    n_sticky = _count_sticky(state, ale.getFloat("repeat_action_probability"))
    if not n_sticky:
        return AleState(state, 0, None)
    if is_continuous:
        raise ValueError("ale-py doesn't tell the strength of the last action, which a sticky action repeats")
    actions = ale.getMinimalActionSet()
    actions += [action for action in ale.getLegalActionSet() if action not in actions]
    expected = _repeat_last(ale, state, n_sticky)
    for action in actions:
        ale.act(action)
        if _repeat_last(ale, state, n_sticky) == expected:
            ale.restoreState(state)
            return AleState(state, n_sticky, action)
    raise ValueError("the last action of the emulator is not one of its actions")


def restore_ale(ale: Any, saved: AleState) -> None:
    if saved.n_sticky:
        _repeat_last(ale, saved.emulator, saved.n_sticky)
        ale.act(saved.last_action)
    ale.restoreState(saved.emulator)


def _repeat_last(ale: Any, state: Any, n_sticky: int) -> bytes:
    """What comes of the frames that repeat the last action. The next frame doesn't: its action becomes the last one."""
    ale.restoreState(state)
    for _ in range(n_sticky):
        ale.act(0)
    return ale.cloneState(include_rng=False).serialize()


@functools.cache
def _mersenne_twister() -> np.random.MT19937:
    return np.random.MT19937(0)  # which takes longer than to set its state


def _count_sticky(state: Any, probability: float) -> int:
    if not 0 < probability < 1:
        return 0  # and with 1 it always repeats the no-op before the first action
    data = state.serialize()
    found = list(_GENERATOR.finditer(data))
    if not found:
        raise ValueError("this version of ale-py saves its random numbers in an unknown way")
    # The first generator is for the console's memory
    start = found[-1].start()
    length = int.from_bytes(data[start - 4 : start], "little")
    words = np.fromstring(data[start : start + length].decode(), np.uint32, sep=" ")
    used = words[_N_WORDS] if len(words) > _N_WORDS else _N_WORDS
    generator = _mersenne_twister()
    generator.state = {"bit_generator": "MT19937", "state": {"key": words[:_N_WORDS], "pos": used}}
    n_sticky = 0
    # The second number of each frame is for the second player
    while generator.random_raw(2)[0] < probability * 2**32:
        n_sticky += 1
    return n_sticky
