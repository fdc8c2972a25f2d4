"""Mends RL Zoo's upload to and download from the Hugging Face Hub, for stock algorithms too.

Releases of ``sb3-team-hf-integration`` and ``huggingface_hub`` broke them. Each function supplies only what is missing,
and does nothing with releases that have it.
"""

from __future__ import annotations

import functools
from importlib import import_module
from pathlib import Path
from typing import Any

import huggingface_sb3
from huggingface_hub import repocard
from huggingface_hub.errors import EntryNotFoundError
from requests.exceptions import HTTPError

from sb3_ext.zoo.registry import ALGORITHMS

__all__ = [
    "let_cards_name_this_package",
    "let_optional_files_be_missing",
    "let_upload_survive_video",
    "provide_generate_metadata",
]

#: Without the variable, the download refuses to start
_CAUTION = """# TRUST_REMOTE_CODE lets the download run code of whoever published it: only set it for people you trust
TRUST_REMOTE_CODE=True """
# An import statement would give the function of the same name, which hides the module in its package.
hub_upload: Any = import_module("huggingface_sb3.push_to_hub")


def provide_generate_metadata() -> None:
    """RL Zoo imports ``generate_metadata``; since 3.2 it has an underscore, and gives an object instead of a dict."""
    if hasattr(hub_upload, "generate_metadata"):
        return

    def generate_metadata(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return hub_upload._generate_metadata(*args, **kwargs).to_dict()

    hub_upload.generate_metadata = generate_metadata


def let_cards_name_this_package() -> None:
    """RL Zoo's model card tells its reader to install RL Zoo, which alone can't load an agent of ours."""
    metadata_save = repocard.metadata_save
    if hasattr(metadata_save, "__wrapped__"):
        return

    @functools.wraps(metadata_save)
    def save_metadata_and_mend_card(local_path: str | Path, data: dict[str, Any]) -> None:
        if data["model-index"][0]["name"] in {class_name for _, class_name in ALGORITHMS.values()}:
            card = Path(local_path)
            text = card.read_text(encoding="utf-8").replace("pip install rl_zoo3", "pip install sb3-ext")
            text = text.replace("python -m rl_zoo3.load_from_hub", f"{_CAUTION}python -m rl_zoo3.load_from_hub")
            card.write_text(text, encoding="utf-8")
            data = {**data, "tags": [*data["tags"], "sb3-ext"]}
        metadata_save(local_path, data)

    repocard.metadata_save = save_metadata_and_mend_card


def let_upload_survive_video() -> None:
    """
    ``_generate_replay`` catches errors while it plays, but not while it sets up the recorder, and doesn't look whether
    ffmpeg made the video.
    """
    generate_replay = hub_upload._generate_replay
    if hasattr(generate_replay, "__wrapped__"):
        return

    @functools.wraps(generate_replay)
    def generate_replay_or_go_on(
        model: Any, eval_env: Any, video_length: int, is_deterministic: bool, local_path: Path
    ) -> None:
        video = Path(local_path, "replay.mp4")
        video.unlink(missing_ok=True)  # came from the Hub, and shows an earlier agent
        reason = "see the messages above"
        try:
            generate_replay(model, eval_env, video_length, is_deterministic, local_path)
        except Exception as error:
            reason = repr(error)
        if not video.exists():
            hub_upload.msg.fail(f"No replay video, the upload goes on without it: {reason}")

    hub_upload._generate_replay = generate_replay_or_go_on


class _MissingFile(HTTPError):
    """What RL Zoo expects when a file is not in a repository."""


def let_optional_files_be_missing() -> None:
    """
    RL Zoo asks for normalisation statistics and catches ``requests``' error when there are none; the client no longer
    uses ``requests``, and its own error would end the download.
    """
    load_from_hub = huggingface_sb3.load_from_hub
    if hasattr(load_from_hub, "__wrapped__") or issubclass(EntryNotFoundError, HTTPError):
        return
    # Not its base class: that one is also raised when the Hub can't be asked, and says nothing about the file.
    from huggingface_hub.errors import RemoteEntryNotFoundError

    @functools.wraps(load_from_hub)
    def load_from_hub_translated(*args: Any, **kwargs: Any) -> str:
        try:
            return load_from_hub(*args, **kwargs)
        except RemoteEntryNotFoundError as error:
            raise _MissingFile(str(error)) from error

    huggingface_sb3.load_from_hub = load_from_hub_translated
