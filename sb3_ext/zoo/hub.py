"""Repairs RL Zoo's upload to and download from the Hugging Face Hub, for stock algorithms too.

Releases of ``sb3-team-hf-integration`` and ``huggingface_hub`` broke them. Each patch adds only what is missing,
and does nothing where a release has it.
"""

import functools
from importlib import import_module
from pathlib import Path
from typing import Any

import huggingface_sb3
from huggingface_hub import repocard
from huggingface_hub.errors import EntryNotFoundError
from requests.exceptions import HTTPError

from sb3_ext.zoo.registry import ALGORITHMS

__all__ = ["patch_generate_metadata", "patch_missing_files", "patch_model_card", "patch_replay_video"]

#: The download refuses to start without the variable
_CAUTION = """# TRUST_REMOTE_CODE lets the download run code from its publisher: only set it for people you trust
TRUST_REMOTE_CODE=True """
# An import statement would give the function of the same name, which hides the module in its package.
hub_upload: Any = import_module("huggingface_sb3.push_to_hub")


def patch_generate_metadata() -> None:
    """RL Zoo imports ``generate_metadata``. Since 3.2 it has an underscore and returns an object, not a dict."""
    if hasattr(hub_upload, "generate_metadata"):
        return

    def generate_metadata(*args: Any, **kwargs: Any) -> dict[str, Any]:
        return hub_upload._generate_metadata(*args, **kwargs).to_dict()

    hub_upload.generate_metadata = generate_metadata


def patch_model_card() -> None:
    """RL Zoo's model card says to install RL Zoo, which alone can't load our agents."""
    metadata_save = repocard.metadata_save
    if hasattr(metadata_save, "__wrapped__"):
        return

    @functools.wraps(metadata_save)
    def save_metadata_and_edit_card(local_path: str | Path, data: dict[str, Any]) -> None:
        if data["model-index"][0]["name"] in {class_name for _, class_name in ALGORITHMS.values()}:
            card = Path(local_path)
            text = card.read_text(encoding="utf-8").replace("pip install rl_zoo3", "pip install sb3-ext")
            text = text.replace("python -m rl_zoo3.load_from_hub", f"{_CAUTION}python -m rl_zoo3.load_from_hub")
            card.write_text(text, encoding="utf-8")
            data = {**data, "tags": [*data["tags"], "sb3-ext"]}
        metadata_save(local_path, data)

    repocard.metadata_save = save_metadata_and_edit_card


def patch_replay_video() -> None:
    """
    ``_generate_replay`` catches errors while it plays, but not while it sets up the recorder, and doesn't check whether
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
        video.unlink(missing_ok=True)  # downloaded from the Hub: it shows an earlier agent
        reason = "see the messages above"
        try:
            generate_replay(model, eval_env, video_length, is_deterministic, local_path)
        # Any recorder, environment or codec may fail here, and the model is worth uploading without a video
        except Exception as error:
            reason = repr(error)
        if not video.exists():
            hub_upload.msg.fail(f"No replay video, uploading without it: {reason}")

    hub_upload._generate_replay = generate_replay_or_go_on


class _MissingFile(HTTPError):
    """What RL Zoo expects when a file is not in a repository."""


def patch_missing_files() -> None:
    """
    RL Zoo asks for normalisation statistics and catches the error of ``requests`` when there are none. The client no
    longer uses ``requests``, so its own error would end the download.
    """
    load_from_hub = huggingface_sb3.load_from_hub
    if hasattr(load_from_hub, "__wrapped__") or issubclass(EntryNotFoundError, HTTPError):
        return
    # Not its base class, which is also raised when the Hub can't be reached
    from huggingface_hub.errors import RemoteEntryNotFoundError

    @functools.wraps(load_from_hub)
    def load_from_hub_translated(*args: Any, **kwargs: Any) -> str:
        try:
            return load_from_hub(*args, **kwargs)
        except RemoteEntryNotFoundError as error:
            raise _MissingFile(str(error)) from error

    huggingface_sb3.load_from_hub = load_from_hub_translated
