"""Opens or continues a study as the command line asks for it, and runs it. Mistakes are found before workers start."""

from __future__ import annotations

import argparse
import os
import shlex
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import gymnasium as gym
import optuna
from rich.console import Console

from sb3_ext.common.clean_text import mask_passwords
from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.auto import resolve_auto
from sb3_ext.tune.live import LiveTable
from sb3_ext.tune.lock import study_lock
from sb3_ext.tune.pool import Pool
from sb3_ext.tune.samplers import LLM, sampler_names
from sb3_ext.tune.settings import StudySettings
from sb3_ext.tune.space import CantExpress, SearchSpace
from sb3_ext.tune.start import first_sections
from sb3_ext.tune.storage import open_storage
from sb3_ext.tune.study import First, TuneStudy, open_study, stored_settings
from sb3_ext.tune.tuning import Tuning
from sb3_ext.zoo.run_folder import missing_folders, remove_folders
from sb3_ext.zoo.storage_errors import naming_storage

__all__ = ["tune"]

#: Options that are settings of the study under the same name
_SETTINGS = (
    "timesteps",
    "seeds",
    "evaluations",
    "episodes",
    "objective",
    "quantile",
    "clock",
    "threshold",
    "seed",
    "pruner",
)


def tune(args: argparse.Namespace) -> int:
    """:param args: of ``sb3-ext tune``"""
    start = time.monotonic()
    command = shlex.join(["sb3-ext", *sys.argv[1:]])
    _check(args)
    for package in args.gym_packages:
        _import(package)
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    name = args.study or f"{args.algo}_{args.env}".replace("/", "-")
    folder = Path(args.log_folder, "tune", name)
    missing = missing_folders(str(folder))
    console = Console(highlight=False)
    pool = _make_pool(args, folder)
    try:
        with naming_storage(args.storage):
            try:
                study = _open(args, name, folder, console)
            except UsageError:
                remove_folders(str(folder) if missing else None, missing)
                raise
            study.study.set_user_attr("command", mask_passwords(command))  # for the report
            with _stopped_by_signals() as received, LiveTable(console) as table:
                tuning = Tuning(args, study, pool, folder, table, start)
                try:
                    tuning.run()
                except KeyboardInterrupt:
                    tuning.write()
                    table.say(mask_passwords(f"interrupted; continue with: {command}"))
                    return 128 + next(iter(received), signal.SIGINT)
    finally:
        pool.close()
    return 0


def _make_pool(args: argparse.Namespace, folder: Path) -> Pool:
    if args.ray:
        from sb3_ext.tune.ray_pool import RayPool

        return RayPool(args.ray)
    from sb3_ext.tune.local_pool import LocalPool

    return LocalPool(args.workers or os.cpu_count() or 1, folder / "workers.log")


def _check(args: argparse.Namespace) -> None:
    names = sampler_names(args.sampler)
    if LLM in names and not args.llm_command:
        raise UsageError('--sampler llm needs --llm-command, such as --llm-command "llm -m MODEL".')
    if args.llm_command and LLM not in names:
        raise UsageError(f"--llm-command is for --sampler llm, and the sampler is {args.sampler}.")
    for flag, value in (("--minutes", args.minutes), ("--llm-timeout", args.llm_timeout)):
        if value is not None and not value > 0:
            raise UsageError(f"{flag} {value:g} must be above 0.")
    if args.fresh_seeds < 0 or args.fresh_seeds in (1, 2):
        raise UsageError(f"--fresh-seeds {args.fresh_seeds} must be 0, for no comparison, or at least 3.")
    if args.ray and args.workers:
        raise UsageError("--workers is for this machine: with --ray, the cluster has as many as CPUs.")


def _import(package: str) -> None:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        import_module(package)
    except ModuleNotFoundError as error:
        raise UsageError(f"--gym-packages: {error}.") from error


@contextmanager
def _stopped_by_signals() -> Iterator[list[int]]:
    """SIGTERM and SIGHUP as Ctrl-C; those that came are in the list."""
    received: list[int] = []

    def interrupt(number: int, frame: Any) -> None:
        received.append(number)
        raise KeyboardInterrupt

    if threading.current_thread() is not threading.main_thread():
        yield received
        return
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        yield received
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_folder(folder: Path, storage: str | None) -> None:
    """Studies of one name in two storages would overwrite each other's reports."""
    note, place = folder / "storage.txt", mask_passwords(storage or "study.log")
    known = note.read_text(encoding="utf-8").strip() if note.is_file() else place
    if known != place:
        raise UsageError(
            f"{folder} has the report of a study in {known}, and this one is in {place}.\n"
            "Choose another name with --study, or another folder with -f."
        )
    folder.mkdir(parents=True, exist_ok=True)
    note.write_text(f"{place}\n", encoding="utf-8")


def _open(args: argparse.Namespace, name: str, folder: Path, console: Console) -> TuneStudy:
    """Everything that can be wrong with a command is found here, before a worker starts."""
    names = sampler_names(args.sampler)
    extra: dict[str, Any] = {}
    if LLM in names:
        from sb3_ext.tune.llm import LLMProposals

        extra["propose"] = LLMProposals(args.llm_command, args.llm_timeout, console)
    first = first_sections(
        args.algo, args.env, args.conf_file, args.from_run, args.log_folder, has_budget=args.timesteps is not None
    )
    space = SearchSpace.read(None if args.space is None else Path(args.space), args.algo, args.env)
    source = {"section": first[0].section, "space": space.as_dict()}
    _check_folder(folder, args.storage)
    storage = open_storage(args.storage, folder)
    lock = partial(study_lock, args.storage, folder, name)
    settings = stored_settings(storage, name)
    typed = {key: getattr(args, key) for key in _SETTINGS if getattr(args, key) is not None}
    if "gp" in names and settings is None:
        typed.setdefault("pruner", "none")  # it learns from complete trials only
    if settings is None:
        settings, first = _new_settings(args, space, first, source, typed, console)
    else:
        settings.check_same({"algo": args.algo, "env": args.env, "source": source, **typed}, name)
    study = open_study(storage, name, settings, first, lock)
    return TuneStudy(study, settings, lock, names, args.startup_trials, **extra)


def _new_settings(
    args: argparse.Namespace,
    space: SearchSpace,
    first: list[First],
    source: dict[str, Any],
    typed: dict[str, Any],
    console: Console,
) -> tuple[StudySettings, list[First]]:
    """Widen the space until it contains the first configurations, and measure what is ``auto``."""
    given = first[0].section
    section, notes = resolve_auto(space.start(given), args.algo, args.env, args.seed or 0, given)
    timesteps = args.timesteps or int(float(section["n_timesteps"]))
    section = {**section, "n_timesteps": timesteps}
    kept = [each for each in first[1:] if each.proposed_by != "rl_zoo" or not args.no_rl_zoo]
    first = [First(first[0].proposed_by, section)]
    first += [First(name, {**other, "n_timesteps": timesteps}) for name, other in kept]
    for _, other in first:
        space, widened = space.including(other)
        notes += widened
    expressed = []
    for each in first:
        try:
            space.params_of(each.section)
            expressed.append(each)
        except CantExpress as error:
            notes.append(f"The hyperparameters of {each.proposed_by} are not among the first trials: {error}")
    for note in notes:
        console.print(note, markup=False, soft_wrap=True)
    ext_threshold = (section.get("ext") or {}).get("threshold")
    known = {
        "algo": args.algo,
        "env": args.env,
        "source": source,
        "start": section,
        "space": space.as_dict(),
        "timesteps": timesteps,
        "threshold": ext_threshold if ext_threshold is not None else gym.spec(args.env).reward_threshold,
        "gym_packages": args.gym_packages,
    }
    settings = StudySettings.read({**known, **typed}, "sb3-ext tune")
    if settings.objective == "steps" and settings.threshold is None:
        raise UsageError(f"{args.env} has no threshold, which --objective steps needs: set one with --threshold.")
    return settings, expressed
