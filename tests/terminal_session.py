"""A program in a pseudo-terminal, which gets keys and whose screen is read."""

import os
import pty
import re
import select
import sys
import time

from sb3_ext.cli import main


class TerminalSession:
    """``sb3-ext`` with some words, in a fork of this process: it has imported everything already."""

    def __init__(self, *words, **environment):
        self._pid, self.terminal = pty.fork()
        if self._pid == 0:
            code = 99
            try:
                os.environ.update(environment)
                sys.stdin = os.fdopen(0, encoding="utf-8")
                sys.stdout = os.fdopen(1, "w", encoding="utf-8")
                sys.stderr = sys.stdout
                code = main(list(words))
                sys.stdout.flush()
            finally:
                os._exit(code)
        self.output = ""

    def press(self, *keys):
        """As a terminal sends them."""
        arrows = {"up": "\x1b[A", "down": "\x1b[B", "right": "\x1b[C", "left": "\x1b[D", "escape": "\x1b"}
        os.write(self.terminal, "".join(arrows.get(key, key) for key in keys).encode())

    def wait_for(self, text, seconds=120):
        """Until the output has it; what came before is forgotten."""
        end = time.monotonic() + seconds
        while not re.search(text, self.output):
            assert time.monotonic() < end and self._read(end - time.monotonic()), (
                f"no {text!r} in {self.output[-2000:]!r}"
            )
        self.output = self.output[re.search(text, self.output).end() :]

    def _read(self, seconds):
        """:return: whether the program still writes"""
        if not select.select([self.terminal], [], [], seconds)[0]:
            return True
        try:
            new = os.read(self.terminal, 65536)
        except OSError:  # it has ended
            return False
        self.output += new.decode(errors="replace")
        return bool(new)

    def exit_code(self, seconds=120):
        """Of the program, when it has ended."""
        end = time.monotonic() + seconds
        while time.monotonic() < end and self._read(end - time.monotonic()):
            pass
        _, status = os.waitpid(self._pid, 0)
        os.close(self.terminal)
        return os.waitstatus_to_exitcode(status)
