"""Runs the program behind ``--llm-command``: a prompt on standard input, an answer on standard output."""

from __future__ import annotations

import os
import selectors
import shlex
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import suppress

from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.common.process_start import starting_process
from sb3_ext.common.usage_error import UsageError

__all__ = ["LLMError", "ask_program", "split_command"]

#: Bytes of an answer, and of the error messages that are kept
_MAX_ANSWER, _MAX_STDERR = 200_000, 4_000
_READ = 65_536
#: Seconds for what is still in the pipes when the program has ended, but a child of it keeps them open
_REST = 0.2


class LLMError(UsageError):
    """The language model's program gave no usable answer; one line says why."""


def split_command(command: str) -> list[str]:
    """:raises LLMError: when there is no such program"""
    try:
        words = shlex.split(command)
    except ValueError as error:
        raise LLMError(f"--llm-command {command!r} can't be read: {error}.") from None
    if not words:
        raise LLMError("--llm-command is empty: give it a program, such as 'llm -m MODEL'.")
    if shutil.which(words[0]) is None:
        if os.path.dirname(words[0]) and os.path.isfile(words[0]):
            advice = f"run chmod +x {shlex.quote(words[0])}"
            raise LLMError(f"--llm-command: {words[0]!r} is not executable: {advice}.")
        raise LLMError(f"--llm-command: there is no program {words[0]!r}.")
    return words


def ask_program(command: str, prompt: str, timeout: float) -> str:
    """
    :param command: program and arguments; no shell reads them
    :param timeout: in seconds; after that, the program and all processes that it started are killed
    :raises LLMError: when it can't be started, fails, hangs, or answers nothing or far too much
    """
    words = split_command(command)
    with tempfile.TemporaryFile() as stdin:  # a pipe would block if the program reads late
        stdin.write(prompt.encode())
        stdin.seek(0)
        try:
            with starting_process():
                pipe = subprocess.PIPE
                process = subprocess.Popen(words, stdin=stdin, stdout=pipe, stderr=pipe, start_new_session=True)
        except OSError as error:
            raise LLMError(f"--llm-command: {words[0]!r} can't be started: {error.strerror}.") from None
        with process:
            try:
                answer, stderr = _read(process, timeout)
            finally:
                with suppress(ProcessLookupError, PermissionError):  # all have ended; macOS says the latter
                    os.killpg(process.pid, signal.SIGKILL)
    return _checked(words[0], process.returncode, answer, stderr)


def _read(process: subprocess.Popen[bytes], timeout: float) -> tuple[bytes, bytes]:
    """Standard output, and the end of standard error."""
    assert process.stdout is not None and process.stderr is not None
    texts = {process.stdout.fileno(): b"", process.stderr.fileno(): b""}
    answer, errors = texts
    deadline = time.monotonic() + timeout
    with selectors.DefaultSelector() as selector:
        for pipe in texts:
            selector.register(pipe, selectors.EVENT_READ)
        while selector.get_map() or process.poll() is None:
            remaining = deadline - time.monotonic()
            if remaining <= 0:
                raise LLMError(f"--llm-command: no answer within {timeout:g} s (--llm-timeout).")
            had_ended = process.poll() is not None
            ready = selector.select(min(remaining, _REST))
            if had_ended and not ready:
                break
            for key, _ in ready:
                chunk = os.read(key.fd, _READ)
                texts[key.fd] += chunk
                if not chunk:
                    selector.unregister(key.fd)
            texts[errors] = texts[errors][-_MAX_STDERR:]
            if len(texts[answer]) > _MAX_ANSWER:
                raise LLMError(f"--llm-command: the answer is longer than {_MAX_ANSWER:,} bytes.")
    return texts[answer], texts[errors]


def _checked(program: str, code: int, answer: bytes, stderr: bytes) -> str:
    said = printable(mask_passwords(stderr.decode(errors="replace"))).strip().rpartition("\n")[2]
    details = f": {said[:300]}" if said else "."
    if code < 0:
        raise LLMError(f"--llm-command: {program!r} was ended by {signal.Signals(-code).name}{details}")
    if code > 0:
        raise LLMError(f"--llm-command: {program!r} ended with code {code}{details}")
    try:
        text = answer.decode()
    except UnicodeDecodeError as error:
        raise LLMError(f"--llm-command: the answer is not encoded in UTF-8 (byte {error.start}).") from None
    if not text.strip():
        raise LLMError(f"--llm-command: {program!r} answered nothing{details}")
    return text
