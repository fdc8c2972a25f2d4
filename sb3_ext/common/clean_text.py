"""Text that is safe to show: without passwords, and without control characters for a terminal."""

import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from sb3_ext.common.full_disk import tolerate_full_disk

__all__ = ["listeners", "mask_command", "mask_passwords", "masked_command_line", "printable", "say"]

#: An address without its scheme, up to a space or to the quote that ends a JSON string
_ADDRESS = re.compile(r'://(?:[^\s"]|"(?!$|[\s,:}\]]))+')
#: ``?password=…`` and the like
_IN_QUERY = re.compile(r"""([?&;][\w.-]{0,50}(?:password|passwd|pwd|secret|token|api_?key)=)[^&;#\s"']+""", re.I)
#: An option, a variable or a header whose name ends like this, and its value if that is in the same word
_SECRET = re.compile(r"(-{0,2}[\w-]*(?:password|passwd|secret|token|key|authorization))(?:([=:]\s*).+)?", re.I | re.S)
#: Control characters except tab and newline, marks of the text direction, and lone surrogates
_NOT_PRINTABLE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")

#: Called with each message that :func:`say` prints
listeners: list[Callable[[str], None]] = []


def mask_passwords(text: str) -> str:
    """:return: the text with ``***`` for passwords in addresses, as in ``postgresql://user:***@host/db``"""
    return _IN_QUERY.sub(r"\1***", _ADDRESS.sub(_masked, text))


def mask_command(command: str) -> str:
    """:return: the command line with ``***`` for passwords and API keys, as in ``llm --key '***'``"""
    masked: list[str] = []
    hides_next = False
    for word in shlex.split(command):
        secret = _SECRET.fullmatch(word)
        masked.append("***" if hides_next else f"{secret[1]}{secret[2]}***" if secret and secret[2] else word)
        hides_next = bool(secret and word.startswith("-") and not secret[2])
    return mask_passwords(shlex.join(masked))


def say(text: str, verbose: int = 1, level: int = 1) -> None:
    """Print a message for the user, without passwords, if ``verbose`` reaches the level of the message."""
    if verbose >= level:
        with tolerate_full_disk(None):  # the output may be in a file
            print(mask_passwords(text), flush=True)
        for listener in listeners:
            listener(text)


@contextmanager
def masked_command_line() -> Iterator[None]:
    """Hides passwords from third-party code that stores or uploads the command line."""
    argv, orig_argv = sys.argv, sys.orig_argv
    sys.argv, sys.orig_argv = ([mask_passwords(word) for word in words] for words in (argv, orig_argv))
    try:
        yield
    finally:
        sys.argv, sys.orig_argv = argv, orig_argv


def printable(text: str) -> str:
    """:return: the text without control characters, which could clear a terminal or type into it"""
    return _NOT_PRINTABLE.sub("", text)


def _masked(address: re.Match[str]) -> str:
    """Greedy, because a password may contain any character: from the first colon to the last ``@``."""
    login, at, rest = address[0].rpartition("@")
    user, colon, password = login[3:].partition(":")
    if not password or set(user) & set("/?#@"):
        return address[0]
    return f"://{user}{colon}***{at}{rest}"
