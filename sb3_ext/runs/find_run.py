"""Finds a run by its name: ``@last``, ``@best``, an id, a path, or the start of one of them."""

import os
from pathlib import Path
from typing import Any

from sb3_ext.common.names import nearest, suggestion
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.folders import check_is_run, is_run
from sb3_ext.runs.registry import LOG_FOLDER, Registry

__all__ = ["find_listed_run", "find_run", "split_checkpoint"]

#: Names in an error
_SHOWN = 6


def find_run(name: str | os.PathLike[str], log_folder: str | os.PathLike[str] = LOG_FOLDER) -> Path:
    """
    :param name: a run folder, such as ``logs/ppo_ext/CartPole-v1_3``; or a run of the log folder: ``@last`` (the
        newest), ``@best`` (the highest score), each also of one environment (``@best:CartPole-v1``); its id; its path
        there (``ppo_ext/CartPole-v1_3``), its last part, or the start of an id or of a path that no other run has; or
        a run of W&B, which is downloaded: ``wandb:entity/project/id``, its address, a folder ``wandb/offline-run-…``
    :return: the run folder
    :raises UsageError: when there is no such run, or more than one; the message names the nearest ones
    """
    path, folder, text = Path(name), Path(log_folder), os.fspath(name)
    if text.startswith(("wandb:", "https://", "http://")) or any(path.glob("run-*.wandb")):
        from sb3_ext.runs.wandb_run import fetch_run

        return fetch_run(text, folder)
    if not text.startswith("@"):
        for place in (path, folder / path):
            if path.parts and is_run(place):
                return place
        if path.is_absolute() or (path.parts and path.is_dir()) or (len(path.parts) > 1 and not folder.is_dir()):
            check_is_run(path)
    return find_listed_run(text, folder)


def find_listed_run(name: str, log_folder: Path) -> Path:
    """As :func:`find_run`, among the runs that the registry of the log folder lists."""
    entries = Registry(log_folder).entries()
    if not entries:
        raise UsageError(f"{log_folder} has no runs, so there is no run {name!r}. For another log folder: -f FOLDER")
    find = _special if name.startswith("@") else _named
    return log_folder / find(name, entries, log_folder)


def _special(name: str, entries: list[dict[str, Any]], folder: Path) -> str:
    which, _, env = name[1:].partition(":")
    if which not in ("last", "best"):
        raise UsageError(f"There is no run {name!r}: {nearest(name, ['@last', '@best'])}")
    envs = sorted({entry["env"] for entry in entries if entry["env"]})
    if env and env not in envs:
        raise UsageError(f"{name}: {folder} has no run of {env}: {nearest(env, envs)}")
    of_env = [entry for entry in entries if not env or entry["env"] == env]
    if which == "last":
        return of_env[0]["folder"]
    scored = [entry for entry in of_env if _score(entry) is not None]
    if not scored:
        raise UsageError(f"{name}: no run in {folder} has a score. To read scores from logs: sb3-ext runs --rebuild")
    if len({entry["env"] for entry in scored}) > 1:
        choices = ", ".join(f"@best:{env}" for env in envs[:_SHOWN])
        raise UsageError(f"{name}: scores of different environments can't be compared. Choose one: {choices}")
    return max(scored, key=_score)["folder"]


def _score(entry: dict[str, Any]) -> Any:
    return entry["score"] if entry["best_score"] is None else entry["best_score"]


def _named(name: str, entries: list[dict[str, Any]], folder: Path) -> str:
    names = [(entry["folder"], entry["folder"].rpartition("/")[2], entry["id"] or "") for entry in entries]
    # An exact name beats the start of others: CartPole-v1_1 is not CartPole-v1_10
    for matches in (str.__eq__, str.startswith):
        found = [of_run for of_run in names if name and any(matches(known, name) for known in of_run)]
        if len(found) == 1:
            return found[0][0]
        if found:
            shown = ", ".join(f"{path} ({run_id})" if run_id else path for path, _, run_id in found[:_SHOWN])
            more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
            raise UsageError(f"{name!r} can be any of {len(found)} runs in {folder}: {shown}{more}.")
    near = suggestion(name, {known for of_run in names for known in of_run if known})
    raise UsageError(f"There is no run {name!r} in {folder}{near} To list them: sb3-ext runs -f {folder}")


def split_checkpoint(name: str) -> tuple[str, str | None]:
    """``RUN@checkpoint``; a run's name may start with ``@`` too."""
    at = name.rfind("@")
    return (name, None) if at <= 0 else (name[:at], name[at + 1 :])
