"""The part of a review about what changed: a run compared with its parent, or with the previous one of its kind."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sb3_ext.runs.record import RunRecord, read_record
from sb3_ext.runs.registry import Registry
from sb3_ext.runs.report.advice import reached_at, sorted_alerts
from sb3_ext.runs.report.charts import markdown_table, number
from sb3_ext.runs.report.commands import log_folder_of
from sb3_ext.runs.report.compare import final_score, flattened, settings_of

__all__ = ["changes"]

#: Settings in the table, and characters of a value
_MAX_ROWS, _MAX_VALUE = 40, 80
_MISSING = "not set"


def changes(run: RunRecord, log_folder: Path) -> list[str]:
    """
    Lines of Markdown. The parent is the run whose weights this one started from.

    :param log_folder: where to look for the earlier run, if this one is not in a log folder
    """
    folder = log_folder_of(run) or log_folder
    name, said = _earlier(run, folder)
    if name is None:
        return [said]
    try:
        before = read_record(folder / name)
    except ValueError as error:
        return [said, "", f"It can't be read: {error}"]
    changed = list(_changed(before, run))
    lines = [said, ""] + ([] if changed else ["No hyperparameter changed.", ""])
    more = [f"{len(changed) - _MAX_ROWS} more settings changed."] if len(changed) > _MAX_ROWS else []
    rows = [*changed[:_MAX_ROWS], *_results(before, run)]
    note = "Each is one seed: a small difference in the score may be luck."
    return [*lines, *markdown_table(["what", "before", "this run"], rows), *more, "", note]


def _earlier(run: RunRecord, folder: Path) -> tuple[str | None, str]:
    """The earlier run's name in the log folder, and a sentence about it."""
    entries, own, parent = Registry(folder).entries(), run.folder.resolve(), run.training.get("parent")
    others = [entry for entry in entries if (folder / entry["folder"]).resolve() != own]
    if parent:
        name = next((entry["folder"] for entry in others if entry["id"] == parent), None)
        where = f"is not in {folder}" if name is None else f"is `{name}`"
        return name, f"This run started from the weights of its parent `{parent}`, which {where}."
    place = next((place for place, entry in enumerate(entries) if (folder / entry["folder"]).resolve() == own), None)
    older = [] if place is None else entries[place + 1 :]
    kind = (run.algo or run.training.get("algo"), run.env_id)
    name = next((entry["folder"] for entry in older if (entry["algo"], entry["env"]) == kind), None)
    if name is None:
        return None, "It has no parent, and there is no earlier run of this algorithm and environment."
    return name, f"It has no parent. The previous run of this algorithm and environment is `{name}`."


def _changed(before: RunRecord, run: RunRecord) -> Iterator[list[str]]:
    old, new = ({**settings_of(record), **dict(flattened(_facts(record)))} for record in (before, run))
    for name in dict.fromkeys([*new, *old]):
        values = [of_run.get(name, _MISSING)[:_MAX_VALUE] for of_run in (old, new)]
        if old.get(name) != new.get(name) and name != "folder":
            yield [name, *values]


def _facts(run: RunRecord) -> dict[str, Any]:
    """What can change the score besides the settings."""
    known = {"seed": run.args.get("seed", run.training.get("seed"))}
    known |= {name: run.training.get(name) for name in ("git_commit", "versions")}
    return {name: value for name, value in known.items() if value is not None}


def _results(before: RunRecord, run: RunRecord) -> Iterator[list[str]]:
    both = (before, run)
    evaluated = all(record.evaluations for record in both)
    yield [
        f"score ({'last evaluation' if evaluated else 'end of training'})",
        *(number(final_score(record, evaluated)) for record in both),
    ]
    reached = [(record.threshold, reached_at(record)) for record in both]
    yield [
        "steps to the threshold",
        *("no threshold" if limit is None else "never" if at is None else number(at) for limit, at in reached),
    ]
    yield ["steps", *("unknown" if record.steps is None else number(record.steps) for record in both)]
    for_both = [", ".join(str(alert.get("id")) for alert in sorted_alerts(record)) for record in both]
    off = ["off" if record.alerts is None else "none" for record in both]
    yield ["alerts", *(ids[:_MAX_VALUE] or nobody for ids, nobody in zip(for_both, off, strict=True))]
