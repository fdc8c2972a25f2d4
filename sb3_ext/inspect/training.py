"""What the page shows of a training: its state, curves, alerts and advice, also while it runs."""

import math
import time
from pathlib import Path
from typing import Any

import numpy as np

from sb3_ext.callbacks.alerts.rules import RULES
from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.metrics.catalogue import describe, ordered
from sb3_ext.metrics.curves import Series
from sb3_ext.runs.agents.choose import model_names
from sb3_ext.runs.alive import state_of
from sb3_ext.runs.record import RunRecord, read_record
from sb3_ext.runs.report.advice import sorted_alerts, suggestions

__all__ = ["training_facts"]

#: Points of a curve
_MAX_POINTS = 400
_ALERT = "alert/"
#: Seconds until the page reads a run again: one that is being written, and one that may only have paused
_SOON, _LATER = 2, 10
#: Seconds without a new row after which a run is not being written, as far as its files show
_QUIET = 60
#: Of curves that are read from files, not logged
_MEANINGS = {
    "evaluation": "mean score of each evaluation; its episodes are not used for learning",
    "score": "mean score of the last 100 training episodes",
}


def training_facts(folder: Path) -> dict[str, Any]:
    """For JSON. A broken run folder has ``problems`` instead of what can't be read."""
    run = read_record(folder)
    state = state_of(run.training) or "unknown"
    curves = {name: _points(run.series[name]) for name in ordered(run.series) if not name.startswith(_ALERT)}
    curves = {"evaluation": _points(run.evaluation_scores), "score": _points(run.score), **curves}
    return {
        **{"state": state, "state_hint": _hint(run, state), "refresh_seconds": _refresh_seconds(run, state)},
        **{"steps": run.steps, "planned": run.planned_steps, "seconds": run.seconds},
        **{"algo": run.algo, "env": run.env_id, "models": model_names(run), "problems": list(run.problems)},
        "threshold": None if run.threshold is None else run.threshold.value,
        "curves": {name: points for name, points in curves.items() if points["x"]},
        "meanings": {**{name: describe(name).meaning for name in curves}, **_MEANINGS},
        "alerts": _alerts(run, state),
        "advice": [] if _may_run(run, state) else _advice(run),
    }


def _may_run(run: RunRecord, state: str) -> bool:
    has_steps_left = run.steps is None or run.steps < (run.planned_steps or 0)
    return state == "running" or (state == "unknown" and has_steps_left)


def _hint(run: RunRecord, state: str) -> str | None:
    """Why the state is unknown."""
    if state != "unknown":
        return None
    return "it started on another machine" if run.training else "RL Zoo doesn't record it for stock algorithms"


def _refresh_seconds(run: RunRecord, state: str) -> int | None:
    """``None`` for a run that has ended."""
    if state == "unknown":
        written = max((path.stat().st_mtime for path in run.folder.glob("[!.]*.*") if path.is_file()), default=0.0)
        state = "running" if time.time() - written < _QUIET else state
    return _SOON if state == "running" else _LATER if _may_run(run, state) else None


def _advice(run: RunRecord) -> list[str]:
    """Without that of the alerts, which are shown with theirs."""
    return [printable(mask_passwords(text)) for text in suggestions(run, with_alerts=False)]


def _points(series: Series) -> dict[str, list[float]]:
    """Means of neighbours, where there are more points than the page can show."""
    steps, values = series.finite
    per_point = max(math.ceil(len(values) / _MAX_POINTS), 1)
    ends = range(0, len(values), per_point)
    return {
        "x": [int(steps[min(start + per_point, len(steps)) - 1]) for start in ends],
        "y": [round(float(np.mean(values[start : start + per_point])), 6) for start in ends],
    }


def _alerts(run: RunRecord, state: str) -> list[dict[str, Any]]:
    """From ``alerts.json``, which is written at the end; until then, from the rows."""
    if run.alerts is not None and state != "running":
        names = ("id", "count", "share", "first_step", "last_step", "advice")
        return [{name: alert.get(name) for name in names} for alert in sorted_alerts(run)]
    found = []
    for name, series in run.series.items():
        rule = RULES.get(name.removeprefix(_ALERT)) if name.startswith(_ALERT) else None
        steps, values = series.finite
        fired = steps[values > 0]
        if rule is not None and len(fired):
            first, last = int(fired[0]), int(fired[-1])
            about = {"id": rule.id, "count": len(fired), "share": len(fired) / len(values), "advice": rule.advice}
            found.append({**about, "first_step": first, "last_step": last})
    return sorted(found, key=lambda alert: -alert["share"])
