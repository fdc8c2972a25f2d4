"""Packs a run folder as a zip for upload, and unpacks one that may come from someone else.

A zip from the network can contain any path and unpack to any size, so it is checked before anything is written. Its
models are still pickles: loading one runs code from whoever made it.
"""

import json
import os
import re
import secrets
import shutil
import stat
import tempfile
import warnings
import zipfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlparse

from sb3_ext.common.clean_text import mask_passwords
from sb3_ext.runs.plain_files import read_plain

__all__ = [
    "RUN_FILE",
    "ZIP_NAME",
    "ZIP_TYPE",
    "download_run",
    "find_tracked",
    "is_plain",
    "leads_out",
    "make_run_folder",
    "masked_lines",
    "split_address",
    "tracked_id",
    "unpack_run",
    "zip_run",
]

#: File in a run folder with the run's address at its tracker
RUN_FILE = "tracking.json"
#: Name and type of the artifact's file
ZIP_NAME, ZIP_TYPE = "run.zip", "run-folder"
_LEFT_OUT = "left_out.txt"
_TEXT_FILES = (".csv", ".json", ".log", ".md", ".txt", ".yaml", ".yml")
#: Maximum number of files to unpack, and size of :data:`RUN_FILE`
_MAX_FILES, _MAX_RUN_FILE = 10_000, 1_000_000


def zip_run(folder: Path, target: Path, max_mb: float) -> list[str]:
    """
    Zip a run folder into ``target``. If it has more than ``max_mb`` before compression, the largest files are left out.
    Returns what is not in the zip, and why; its ``left_out.txt`` says it too.
    """
    files = [path for path in folder.rglob("*") if path.is_file() and path != target]
    files = [path for path in files if not any(part.startswith(".") for part in path.relative_to(folder).parts)]
    files = [path for path in files if path.relative_to(folder).parts[0] != "wandb"]
    left_out = []
    room = int(max_mb * 1e6)
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        # Where to unpack it, for runs without a RUN_FILE
        archive.comment = json.dumps({"algo": folder.resolve().parent.name, "folder": folder.resolve().name}).encode()
        for size, path in sorted((path.stat().st_size, path) for path in files):
            name = path.relative_to(folder).as_posix()
            if leads_out(path, folder):
                left_out.append(f"{name} (links to a file outside the run folder)")
            elif size > room:
                left_out.append(f"{name} ({size / 1e6:.1f} MB)")
            else:
                room -= size
                _pack(archive, path, name)
        if left_out:
            archive.writestr(_LEFT_OUT, "\n".join(left_out) + "\n")
    return left_out


def _pack(archive: zipfile.ZipFile, path: Path, name: str) -> None:
    if path.suffix not in _TEXT_FILES:
        archive.write(path, name)
        return
    info = zipfile.ZipInfo.from_file(path, name)
    info.compress_type = archive.compression
    with archive.open(info, "w") as packed:
        packed.writelines(masked_lines(path))


def masked_lines(path: Path) -> Iterator[bytes]:
    """The lines of a text file with passwords masked, such as RL Zoo's ``args.yml`` with ``--storage``."""
    with path.open(encoding="utf-8", errors="surrogateescape", newline="") as file:
        for line in file:
            yield mask_passwords(line).encode("utf-8", "surrogateescape")


def leads_out(path: Path, folder: Path) -> bool:
    """Whether a link leads to a file outside the folder, which nobody asked to upload."""
    return not path.resolve().is_relative_to(folder.resolve())


def download_run(run: str, log_folder: str | os.PathLike[str] = "logs", api: Any = None, max_mb: float = 2000) -> Path:
    """Download an uploaded run folder, for ``enjoy`` and other commands. An existing one is not downloaded again.

    Its models are pickles: only play runs from people you trust.

    :param run: ``entity/project/run id``, or the address of its page
    :param log_folder: RL Zoo's log folder
    :param api: default: ``wandb.Api()``
    :param max_mb: maximum size after unpacking
    :return: the run folder
    :raises ValueError: if this is not a run, or its zip was not made by :func:`zip_run`
    """
    entity, project, run_id = split_address(run)
    local = find_tracked(run_id, log_folder)
    if local is not None:
        return local
    if api is None:
        import wandb

        api = wandb.Api()
    with tempfile.TemporaryDirectory() as temporary:
        artifact = api.artifact(f"{entity}/{project}/run-{run_id}:latest", type=ZIP_TYPE)
        if artifact.size > max_mb * 1e6:
            raise ValueError(
                f"{run} has {artifact.size / 1e6:,.1f} MB: at most {max_mb:,g} MB are accepted; see max_mb."
            )
        return unpack_run(Path(artifact.download(root=temporary)) / ZIP_NAME, log_folder, max_mb)


def split_address(run: str) -> tuple[str, str, str]:
    """:return: entity, project and id of a run on W&B"""
    path = [part for part in urlparse(run).path.split("/") if part and part != "runs"]
    if len(path) != 3:
        raise ValueError(f"{run!r} must be entity/project/run id, or the address of a run's page.")
    return path[0], path[1], path[2]


def tracked_id(folder: str | os.PathLike[str], tracker: str) -> str | None:
    """:return: the id that a run folder's run has at a tracker, ``wandb`` or another; ``None`` if it has none there"""
    known = read_plain(Path(folder, RUN_FILE), dict, []) or {}
    run_id = known.get("id")
    return run_id if isinstance(run_id, str) and known.get("tracker", "wandb") == tracker else None


def find_tracked(run_id: str, log_folder: str | os.PathLike[str]) -> Path | None:
    """The run folder of a run on W&B, if it is here."""
    files = sorted(Path(log_folder).glob(f"*/*/{RUN_FILE}"))
    return next((file.parent for file in files if (read_plain(file, dict, []) or {}).get("id") == run_id), None)


def unpack_run(
    zipped: str | os.PathLike[str], log_folder: str | os.PathLike[str] = "logs", max_mb: float = 2000
) -> Path:
    """
    :return: the run folder; if another run has its name, it gets the next free number
    :raises ValueError: if the zip was not made by :func:`zip_run`; nothing is written
    """
    try:
        with zipfile.ZipFile(zipped) as archive:
            algo, name = _read_names(archive)
            members = _checked_members(archive, max_mb)
            target = make_run_folder(log_folder, algo, name, lambda folder: archive.extractall(folder, members))
    except zipfile.BadZipFile as error:
        raise ValueError(f"{zipped} is not a whole zip file: {error}. Copy or download it again.") from None
    left_out = target / _LEFT_OUT
    if left_out.is_file():
        missing = left_out.read_text(encoding="utf-8", errors="replace")[:1000]
        warnings.warn(f"{target} is not complete, these files were not uploaded: {missing}", stacklevel=2)
    return target


def make_run_folder(log_folder: str | os.PathLike[str], algo: str, name: str, fill: Callable[[Path], None]) -> Path:
    """
    :param fill: writes into the folder; if it fails, there is none
    :return: the run folder; if another run has its name, it gets the next free number
    """
    group = Path(log_folder) / algo
    if leads_out(group, Path(log_folder)):
        raise ValueError(f"{group} links to a folder outside {log_folder}.")
    group.mkdir(parents=True, exist_ok=True)
    unfinished = group / f".unfinished-{secrets.token_hex(8)}"
    unfinished.mkdir()
    try:
        fill(unfinished)
        return unfinished.rename(_free_folder(group, name))
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise


def _read_names(archive: zipfile.ZipFile) -> tuple[str, str]:
    """The folder of its algorithm, and its own."""
    try:
        tracked = archive.NameToInfo.get(RUN_FILE)
        if tracked is not None and tracked.file_size > _MAX_RUN_FILE:
            raise ValueError(f"it is larger than {_MAX_RUN_FILE:,} bytes")
        info = json.loads(archive.comment if tracked is None else archive.read(RUN_FILE))
        names = info["algo"], info["folder"]
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"{archive.filename} is not a run folder: its name can't be read: {error}") from None
    for name in names:
        if not isinstance(name, str) or not is_plain(name):
            raise ValueError(f"{archive.filename}: its name has {name!r}; expected a plain folder name.")
    return names


def _checked_members(archive: zipfile.ZipFile, max_mb: float) -> list[zipfile.ZipInfo]:
    """All files without links. ``zipfile`` never reads more of a file than the size checked here."""
    members = [member for member in archive.infolist() if not stat.S_ISLNK(member.external_attr >> 16)]
    for member in members:
        if not all(map(is_plain, member.filename.removesuffix("/").split("/"))):
            raise ValueError(f"{archive.filename} has a file {member.filename!r}: its name must be plain.")
    size = sum(member.file_size for member in members)
    if len(members) > _MAX_FILES or size > max_mb * 1e6:
        raise ValueError(
            f"{archive.filename} unpacks to {len(members):,} files of {size / 1e6:,.1f} MB: at most {_MAX_FILES:,} "
            f"files of {max_mb:,g} MB are accepted; see max_mb."
        )
    return members


def is_plain(name: str) -> bool:
    """A single safe name on every system: no path, no drive, no control characters."""
    return bool(name.strip(". ")) and name.isprintable() and not set(name) & set('/\\:"<>|?*')


def _free_folder(group: Path, name: str) -> Path:
    if not (group / name).exists():
        return group / name
    stem = re.sub(r"_\d+$", "", name)
    numbers = [
        int(match[1]) for path in group.iterdir() if (match := re.fullmatch(f"{re.escape(stem)}_(\\d+)", path.name))
    ]
    return group / f"{stem}_{max(numbers, default=0) + 1}"
