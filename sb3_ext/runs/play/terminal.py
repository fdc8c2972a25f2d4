"""A game as text in a terminal: drawn in place, with keys that are read as they are pressed."""

from __future__ import annotations

import os
import select
import sys
import time
from collections import deque
from collections.abc import Callable, Collection
from contextlib import ExitStack
from types import TracebackType
from typing import Any

from stable_baselines3.common.vec_env import VecEnv, unwrap_vec_normalize
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs

from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.play.episode_table import Stopped
from sb3_ext.runs.play.frames import Frames, first_env
from sb3_ext.runs.play.game import Status
from sb3_ext.runs.play.keys import KeyMap
from sb3_ext.runs.play.labels import observation_labels
from sb3_ext.runs.play.text_view import TextView

__all__ = ["Terminal", "split_keys"]

#: What terminals send for a key that is not a character
_SEQUENCES = {
    **{
        f"\x1b{start}{letter}": key
        for start in "[O"
        for letter, key in zip("ABCD", ("up", "down", "right", "left"), strict=True)
    },
    **{" ": "space", "\r": "enter", "\n": "enter", "\t": "tab", "\x7f": "backspace", "\x08": "backspace"},
    **{"\x1b": "escape", "\x03": "escape"},  # Ctrl-C
}
#: The start of a sequence, and the seconds in which the rest of it follows. Alone, it is the key Esc
_UNFINISHED, _SEQUENCE_TIME = (b"\x1b", b"\x1b[", b"\x1bO"), 0.05
#: Terminals don't tell when a key is released: it counts as held for this many seconds
_HELD = 0.25
_ALTERNATE, _NORMAL = "\x1b[?1049h\x1b[?25l\x1b[2J", "\x1b[?25h\x1b[?1049l"


def split_keys(text: str) -> list[str]:
    """Names of the keys that a terminal sent."""
    keys = []
    while text:
        sequence = next((sequence for sequence in _SEQUENCES if text.startswith(sequence)), text[0])
        keys.append(_SEQUENCES.get(sequence, sequence.lower()))
        text = text[len(sequence) :]
    return keys


class Terminal:
    """
    A context manager. Without a terminal at the input there are no keys; without one at the output nothing is drawn.

    :param env: in the render mode ``ansi``, or any other to show its observations
    """

    def __init__(self, env: VecEnv, keys: KeyMap | None, fps: float) -> None:
        self._env, self._keys, self._fps = env, keys, fps
        self._has_keys = sys.stdin.isatty()
        self._is_drawn = sys.stdout.isatty()
        self._is_ansi = first_env(env).render_mode == "ansi"
        is_ascii = not (sys.stdout.encoding or "").lower().startswith("utf")
        self._view = TextView(env.observation_space, observation_labels(env), is_ascii)
        self._picture = ""
        self._lines: list[str] = []
        self._waiting: deque[str] = deque()
        #: Steps for which a key still counts as held
        self._held: dict[str, int] = {}
        self._stack = ExitStack()
        self._next = 0.0

    def __enter__(self) -> Terminal:
        if self._is_ansi:
            self._frames = self._stack.enter_context(Frames.of(self._env, self._take, "ansi"))
        if self._has_keys:
            self._stack.callback(_one_key_at_a_time())
        if self._is_drawn:
            sys.stdout.write(_ALTERNATE)
            self._stack.callback(sys.stdout.flush)
            self._stack.callback(sys.stdout.write, _NORMAL)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def _take(self, picture: Any) -> None:
        self._picture = str(picture)

    def show(self, observations: VecEnvObs | None, status: Status) -> None:
        if not self._is_drawn:
            return
        if self._is_ansi:
            if not status.step:
                self._frames.take_picture()
            lines = self._picture.splitlines()
        elif observations is None:
            lines = self._lines  # of the last step but one
        else:
            lines = self._lines = self._view.lines(self._first(observations))
        keys = f"{self._keys.describe()}, q: quit" if self._keys is not None else "q: quit" if self._has_keys else ""
        # Each line replaces the one that is there: clearing the screen would flicker
        text = "\n".join(f"{line}\x1b[K" for line in [*lines, "", str(status), "", keys])
        sys.stdout.write(f"\x1b[H{text}\x1b[J")
        sys.stdout.flush()

    def _first(self, observations: VecEnvObs) -> Any:
        vec_normalize = unwrap_vec_normalize(self._env)
        shown: Any = observations if vec_normalize is None else vec_normalize.get_original_obs()
        return {key: part[0] for key, part in shown.items()} if isinstance(shown, dict) else shown[0]

    def held_keys(self, wait: bool) -> Collection[str]:
        if wait:
            while not self._waiting:
                self._read(None)
            return (self._next_key(),)
        now = time.monotonic()
        # Nobody watches at the pace of the game where nothing is drawn
        self._next = max(self._next + 1 / self._fps, now) if self._is_drawn else now
        self._held = {key: steps - 1 for key, steps in self._held.items() if steps > 1}
        while True:
            self._read(max(self._next - time.monotonic(), 0.0))
            while self._waiting:
                self._held[self._next_key()] = max(round(_HELD * self._fps), 1)
            if time.monotonic() >= self._next:
                return self._held

    def _next_key(self) -> str:
        key = self._waiting.popleft()
        if key == "escape" or (key == "q" and not (self._keys and self._keys.is_bound("q"))):
            raise Stopped
        return key

    def _read(self, seconds: float | None) -> None:
        """Wait for keys for so long, or until one is pressed."""
        try:
            if not self._has_keys:
                time.sleep(seconds or 0.0)
            elif _has_input(seconds):
                text = os.read(sys.stdin.fileno(), 1024)
                while text.endswith(_UNFINISHED) and _has_input(_SEQUENCE_TIME):
                    text += os.read(sys.stdin.fileno(), 1024)
                if not text:
                    raise Stopped  # the terminal is gone
                self._waiting.extend(split_keys(text.decode(errors="replace")))
        except KeyboardInterrupt:
            raise Stopped from None


def _has_input(seconds: float | None) -> bool:
    return bool(select.select([sys.stdin], [], [], seconds)[0])


def _one_key_at_a_time() -> Callable[[], None]:
    """
    Keys arrive without Enter and are not shown. So does Ctrl-C: at any moment, it would lose what was played.

    :return: restores the terminal
    """
    try:
        import termios
        import tty
    except ImportError:  # Windows
        raise UsageError("This terminal doesn't tell single keys: use --window.") from None
    before = termios.tcgetattr(sys.stdin)
    tty.setcbreak(sys.stdin, termios.TCSANOW)
    changed = termios.tcgetattr(sys.stdin)
    changed[6][termios.VINTR] = os.fpathconf(sys.stdin.fileno(), "PC_VDISABLE").to_bytes()
    termios.tcsetattr(sys.stdin, termios.TCSANOW, changed)
    return lambda: termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
