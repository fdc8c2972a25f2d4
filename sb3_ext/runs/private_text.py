"""Passwords, tokens and absolute paths must not leave this machine: replaces them in text, finds them in files."""

from __future__ import annotations

import base64
import json
import os
import re
import zipfile
from pathlib import Path
from typing import Any

from sb3_ext.common.clean_text import mask_passwords

__all__ = ["find_private", "without_private", "write_public_model"]

#: A path from the root, and one with a drive; group 1 is its last part
_PATH = re.compile(
    r"(?<![\w.~:/\\-])/(?:[\w.@+ -]*[\w.@+-]/)+([\w.@+-]*)|(?<![\w])[A-Za-z]:\\(?:[^\\\s\"']+\\)*([^\\\s\"']*)"
)
#: Of the Hub, of GitHub and of W&B
_TOKEN = re.compile(r"\b(?:hf_[A-Za-z0-9]{8,}|gh[pousr]_[A-Za-z0-9]{20,}|wandb_v1_[A-Za-z0-9_]{20,})\b")
_SECRET_NAME = re.compile(r"token|key|secret|passw", re.IGNORECASE)
_MIN_SECRET = 8
#: Parts of SB3's zip without which a model can't be loaded
_NEEDED = ("policy_class", "policy_kwargs", "observation_space", "action_space")


def without_private(text: str) -> str:
    """The text with ``***`` for secrets, and the last part of each absolute path instead of the path."""
    for secret in _secrets():
        text = text.replace(secret, "***")
    return _PATH.sub(_last_part, _TOKEN.sub("***", mask_passwords(text)))


def find_private(path: Path) -> str | None:
    """What a file still has of that, in zips and their pickles too; ``None`` if it is clean."""
    if zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            parts = [part for name in archive.namelist() for part in _parts_of(name, archive.read(name))]
    else:
        parts = [path.read_bytes()]
    for part in parts:
        text = part.decode("utf-8", errors="ignore")
        known = [secret for secret in _secrets() if secret in text]
        if known or _TOKEN.search(text):
            return "a password or token"
        for home in _homes():
            if home in text:
                return f"the path {home}"
    return None


def write_public_model(source: Path, target: Path) -> None:
    """
    Copy SB3's zip without attributes that have an absolute path or a secret. What playing needs is never left out.

    :raises ValueError: when one of these has such a text
    """
    with zipfile.ZipFile(source) as archive, zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as public:
        for name in archive.namelist():
            content = archive.read(name)
            if name == "data":
                content = json.dumps(_public_attributes(json.loads(content), source), indent=4).encode()
            public.writestr(name, content)


def _public_attributes(data: dict[str, Any], source: Path) -> dict[str, Any]:
    kept = {**data, "tensorboard_log": None}
    for name, value in data.items():
        text = b"\n".join(_parts_of("data", json.dumps({name: value}).encode())).decode("utf-8", errors="ignore")
        if not any(private in text for private in (*_homes(), *_secrets())) or name == "tensorboard_log":
            continue
        if name in _NEEDED:
            raise ValueError(
                f"{source}: its {name} has a path or a password of this machine, so it can't be published."
            )
        del kept[name]
    return kept


def _parts_of(name: str, content: bytes) -> list[bytes]:
    """A member of SB3's zip, with the pickles inside its JSON decoded."""
    if name != "data":
        return [content]
    values = json.loads(content).values()
    pickles = [value[":serialized:"] for value in values if isinstance(value, dict) and ":serialized:" in value]
    return [content, *(base64.b64decode(pickle) for pickle in pickles)]


def _last_part(path: re.Match[str]) -> str:
    first = path[0].split("/")[1] if path[0].startswith("/") else ""
    if first and not os.path.isdir(f"/{first}"):
        return path[0]  # such as the name of a metric
    return path[1] or path[2] or path[0].rstrip("/\\").replace("\\", "/").rpartition("/")[2]


def _homes() -> list[str]:
    """Folders whose names say who made this, and where."""
    found = {os.path.expanduser("~"), os.getcwd(), os.path.realpath(os.getcwd())}
    return sorted(folder for folder in found if len(Path(folder).parts) > 1)


def _secrets() -> list[str]:
    named = [value for name, value in os.environ.items() if _SECRET_NAME.search(name)]
    return [value for value in named if len(value) >= _MIN_SECRET and not os.path.exists(value)]
