"""What is known of a run, its files, and what to do next with it, as text. Imports little: it must answer at once."""

import shlex
from collections.abc import Iterator, Mapping
from datetime import timedelta
from pathlib import Path
from typing import Any

from sb3_ext.common.clean_text import printable
from sb3_ext.runs.registry import Registry, read_facts

__all__ = ["describe_run", "run_data", "shown_size"]

#: What is shown in a sentence above the other facts
_SAID = (
    "id algo algorithm env_id n_envs state stop_reason stop_advice signal error steps steps_at_start total_timesteps "
    "seconds score score_from best_score solved threshold env_threshold started ended resumes pid process_started"
).split()
_FILES = {
    "resume.zip": "to continue the training",
    "best_model.zip": "the best model by evaluation",
    "last_model.zip": "the latest model",
    "run.log": "what the training said",
    "report.md": "the report",
    "review.md": "what a language model says of it",
    "progress.csv": "metrics over the steps",
    "evaluations.npz": "scores of evaluations",
    "alerts.json": "alerts that fired",
}


def run_data(folder: Path) -> dict[str, Any]:
    """``run.json``, with the state now, the files and their sizes."""
    # The entry has only values of the right type
    entry = Registry(folder.parent).entry(folder)
    return {**read_facts(folder), **entry, "path": str(folder), "files": _sizes(folder)}


def describe_run(folder: Path) -> str:
    facts, known = read_facts(folder), run_data(folder)
    lines = [f"{folder} ({known['id'] or 'without an id'})", *_summary(known)]
    for name, value in facts.items():
        if name not in _SAID and value not in (None, [], {}):
            lines += _described(name, value)
    files = [f"  {shown_size(size):>9}  {name}{_meaning(name)}" for name, size in known["files"].items()]
    lines += ["", "Files", *files, "", "What to do next", *(f"  {command}" for command in _next(folder, known))]
    return printable("\n".join(lines))


def _summary(known: Mapping[str, Any]) -> Iterator[str]:
    why = known.get("error") or known.get("stop_reason") or known.get("signal")
    yield f"  state: {known['state'] or 'unknown'}{f' ({why})' if why else ''}"
    if known.get("stop_advice"):
        yield f"  advice: {known['stop_advice']}"
    n_envs = f", {known['n_envs']} environments" if "n_envs" in known else ""
    yield f"  trained: {known['algo'] or 'unknown'} on {known['env'] or 'unknown'}{n_envs}"
    yield f"  score: {_score(known)}"
    steps, seconds, planned = known["steps"], known["seconds"], known["total_timesteps"]
    if steps is not None:
        of = f" of {planned:,.0f}" if planned else ""
        took = f" in {timedelta(seconds=int(seconds))}" if seconds is not None else ""
        yield f"  steps: {steps:,.0f}{of}{took}"
    ended = f", ended: {known['ended']}" if known.get("ended") else ""
    yield f"  started: {known['started'] or 'unknown'}{ended}"
    for resume in known.get("resumes") or []:
        if isinstance(resume, Mapping):
            yield f"  resumed: {resume.get('at')} at step {resume.get('step')}"


def _score(known: Mapping[str, Any]) -> str:
    if known["score"] is None:
        return "unknown"
    source = f" ({known['score_from']})" if known.get("score_from") else ""
    threshold, solved = known["threshold"], known["solved"]
    verdict = "" if threshold is None else f"; {'solved' if solved else 'not solved'}: the threshold is {threshold:g}"
    best = known["score"] if known["best_score"] is None else known["best_score"]
    return f"{known['score']:g}{source}, best {best:g}{verdict}"


def _described(name: str, value: Any, indent: str = "  ") -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        yield f"{indent}{name}:"
        for key, entry in value.items():
            yield from _described(key, entry, f"{indent}  ")
    else:
        yield f"{indent}{name}: {value}"


def _sizes(folder: Path) -> dict[str, int]:
    """Of files, and of folders with a slash at the end of their names."""
    sizes = {}
    for path in sorted(folder.iterdir()):
        if path.is_dir():
            sizes[f"{path.name}/"] = sum(file.stat().st_size for file in path.rglob("*") if file.is_file())
        elif path.is_file():
            sizes[path.name] = path.stat().st_size
    return sizes


def _meaning(name: str) -> str:
    return f": {_FILES[name]}" if name in _FILES else ""


def _next(folder: Path, known: Mapping[str, Any]) -> Iterator[str]:
    # These take longer to import than the help takes
    from sb3_ext.runs.agents.bundle import RESUME_FILE
    from sb3_ext.runs.agents.checkpoint import find_checkpoints
    from sb3_ext.runs.record import read_record
    from sb3_ext.runs.report.commands import resume_command, shown_path, train_command

    name = shlex.quote(shown_path(folder))
    can_resume = (folder / RESUME_FILE).is_file() or bool(find_checkpoints(folder))
    if known["state"] == "running":
        yield f"tail -f {shlex.quote(str(folder / 'run.log'))}"
    elif known["state"] in ("interrupted", "failed", "killed"):
        if can_resume:
            yield resume_command(folder)
        elif again := train_command(read_record(folder)) or known.get("command"):
            yield f"{again}   # nothing was saved to resume from"
    elif known["state"] == "finished" and known["steps"] and can_resume:
        again = resume_command(folder, int(known["steps"]), int(known["total_timesteps"] or 0))
        yield f"{again}   # train it for as long again"
    if any(folder.glob("*.zip")):
        yield f"sb3-ext enjoy {name}"
    yield f"sb3-ext report {name}"
    yield f"sb3-ext plot {name}"


def shown_size(size: float) -> str:
    """Such as ``12.3 MB``."""
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"
