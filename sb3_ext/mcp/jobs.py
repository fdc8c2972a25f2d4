"""What the helper process does: it imports torch and RL Zoo, and runs code of environments and models."""

from __future__ import annotations

import contextlib
import csv
import functools
import io
from collections.abc import Mapping, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sb3_ext import _autoload
from sb3_ext.common.arguments import to_integer
from sb3_ext.common.names import nearest
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.choose import choose_model
from sb3_ext.runs.record import RunRecord, read_record
from sb3_ext.zoo.config.files import Section
from sb3_ext.zoo.config.reader import Problem, raise_problems
from sb3_ext.zoo.registry import ALGORITHMS

if TYPE_CHECKING:
    from sb3_ext.runs.play.episode_table import EpisodeTable
    from sb3_ext.zoo.load_run import LoadedRun

__all__ = ["Request", "check_resumed", "check_start", "describe_config", "episode_rows", "find_spaces_of", "screenshot"]

#: Steps of an episode that is played
_MAX_STEPS = 10_000
#: Pixels of a screenshot's longer side
_MAX_SIDE = 1024


class Request(NamedTuple):
    """
    A training that a client asks for.

    :param hyperparams: checked by :func:`~sb3_ext.mcp.client_values.plain_hyperparams`
    :param steps: ``None``: as many as the config says
    """

    algo: str
    env_id: str
    hyperparams: Mapping[str, Any]
    steps: int | None
    log_folder: str
    packages: tuple[str, ...]


def _import_zoo(packages: Sequence[str]) -> None:
    _autoload.install()
    import_module("sb3_ext.zoo.models")
    for package in packages:
        import_module(package)


def check_start(request: Request) -> tuple[int, dict[str, Any]]:
    """
    :return: timesteps that it takes, and hyperparameters for its command line
    :raises UsageError: with a line for each mistake
    """
    section, problems, typed = _read(request)
    raise_problems(problems)
    return to_integer(section.values["n_timesteps"]) if request.steps is None else request.steps, typed


def describe_config(request: Request) -> str:
    """What is wrong with it; or else what it would train with, and where each value comes from."""
    _, problems, typed = _read(request)
    errors = [str(problem) for problem in problems if not problem.is_warning]
    if errors:
        return "\n".join([f"{len(errors)} mistake{'s' * (len(errors) != 1)}:", *errors])
    from sb3_ext.zoo.config.show import show_settings

    settings = show_settings(request.algo, request.env_id, hyperparams=typed)
    lines = [f"{setting.key}: {setting.value}  ({Path(setting.source).name})" for setting in settings]
    return "\n".join(["No mistakes.", *map(str, problems), "", *lines])


def _read(request: Request) -> tuple[Section, list[Problem], dict[str, Any]]:
    _import_zoo(request.packages)
    from sb3_ext.zoo.config.start import read_section
    from sb3_ext.zoo.options import OUR_DEFAULTS

    # So that runs of stock algorithms have a state and alerts too, and can be resumed
    defaults = {} if request.algo in ALGORITHMS else {f"ext.{key}": value for key, value in OUR_DEFAULTS.items()}
    typed = {**defaults, **request.hyperparams}
    has_budget = request.steps is not None
    return *read_section(request.algo, request.env_id, None, request.log_folder, has_budget, typed), typed


def check_resumed(folder: str, model: str | None, hyperparams: Mapping[str, Any], steps: int | None) -> int:
    """
    :param steps: that the run is to have in all; ``None``: as planned
    :return: timesteps that are left
    :raises UsageError: when it can't be resumed, or not with these hyperparameters
    """
    record = read_record(folder)
    _import_zoo(record.args.get("gym_packages") or ())
    from sb3_ext.zoo.config.check import check_training
    from sb3_ext.zoo.resume import ResumeOptions, check_resume

    options = ResumeOptions(run=folder if model is None else f"{folder}@{model}")
    facts, values, left = check_resume(options, folder, hyperparams, steps)
    section = Section("the run to resume", facts.env_id or "", values, None)
    raise_problems(check_training(section, values, facts.algo, facts.env_id or "", True, str(Path(folder).parent)))
    return left


def find_spaces_of(env_ids: Sequence[str], packages: Sequence[str]) -> list[dict[str, str]]:
    """Fields of ``EnvSpaces``."""
    from sb3_ext.zoo.env_catalogue import import_packages
    from sb3_ext.zoo.env_spaces import find_spaces

    import_packages(packages)
    return [spaces._asdict() for spaces in find_spaces(env_ids, packages, seconds=10.0)]


def episode_rows(
    folder: str, model: str | None, seed: int, first: int, n_rows: int, columns: Sequence[str], max_chars: int
) -> str:
    """A part of an episode's table as CSV, below a line that says what it is."""
    table, name = _played(folder, model, seed)
    unknown = [column for column in columns if column not in table.columns]
    if unknown:
        raise UsageError(f"The table has no column {unknown[0]!r}: {nearest(unknown[0], list(table.columns))}")
    if first >= len(table):
        raise UsageError(f"first_row={first}: the episode has {len(table)} steps.")
    names = list(columns) or list(table.columns)
    lines = [_csv_line(names)]
    for row in range(first, min(first + n_rows, len(table))):
        line = _csv_line([_cell(table[name][row]) for name in names])
        if len(lines) > 1 and sum(map(len, lines)) + len(line) > max_chars:
            break
        lines.append(line)
    end = first + len(lines) - 1
    more = "" if end == len(table) else f"; the next page has first_row={end}"
    how = f"{name}, seed {seed}: score {table.score:.6g} in {len(table)} steps"
    return f"{how}. Rows {first} to {end - 1}{more}.\n{''.join(lines)}"


def screenshot(folder: str, model: str | None, seed: int, step: int) -> bytes:
    """:return: a PNG of the frame in which the agent chooses the action of this row of the table"""
    import cv2

    table, _ = _played(folder, model, seed)
    if step >= len(table):
        raise UsageError(f"step={step}: the episode has {len(table)} steps, and frames from 0 to {len(table) - 1}.")
    record = read_record(folder)
    loaded = _load(record, model, seed, "rgb_array")
    try:
        if step:
            _play(loaded, seed, step)
        else:
            loaded.env.seed(seed)
            loaded.env.reset()
        picture = loaded.env.get_images()[0]
    finally:
        loaded.env.close()
    if picture is None or picture.ndim != 3:
        raise UsageError(f"{record.env_id} can't be rendered as a picture (render mode 'rgb_array').")
    scale = min(1.0, _MAX_SIDE / max(picture.shape[:2]))
    if scale < 1.0:
        picture = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    return cv2.imencode(".png", picture[:, :, ::-1])[1].tobytes()


def _played(folder: str, model: str | None, seed: int) -> tuple[EpisodeTable, str]:
    """The table, and the name of the model."""
    chosen = choose_model(read_record(folder), model)
    table = _episode(folder, model, seed, chosen.path.stat().st_mtime_ns)
    return table, f"{Path(folder).name}@{chosen.name}"


@functools.lru_cache(maxsize=4)
def _episode(folder: str, model: str | None, seed: int, changed: int) -> EpisodeTable:
    """:param changed: when the model was written; pages are rows of the same episode as long as it stays"""
    loaded = _load(read_record(folder), model, seed, None)
    try:
        return _play(loaded, seed, _MAX_STEPS)
    finally:
        loaded.env.close()


def _load(record: RunRecord, model: str | None, seed: int, render_mode: str | None) -> LoadedRun:
    from sb3_ext.zoo.load_run import load_as_trained

    with contextlib.redirect_stdout(io.StringIO()):
        try:
            return load_as_trained(record, choose_model(record, model), seed, render_mode)
        # An environment that can't be rendered raises anything
        except Exception as error:
            if render_mode is None or isinstance(error, UsageError):
                raise
            raise UsageError(f"{record.env_id} can't be rendered: {type(error).__name__}: {error}") from error


def _play(loaded: LoadedRun, seed: int, max_steps: int) -> EpisodeTable:
    from sb3_ext.runs.play.episode_table import play_episode

    return play_episode(loaded.model, loaded.env, deterministic=loaded.deterministic, seed=seed, max_steps=max_steps)


def _cell(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def _csv_line(cells: Sequence[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()
