"""Suggests what to try next with a run, from its curve, evaluations, end and alerts."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sb3_ext.metrics.curves import Series
from sb3_ext.runs.agents.bundle import RESUME_FILE
from sb3_ext.runs.record import RunRecord
from sb3_ext.runs.report.charts import number
from sb3_ext.runs.report.commands import resume_command, shown_path, train_command

__all__ = ["Trend", "first_reached", "reached_at", "sorted_alerts", "stays_from", "suggestions", "trend_of"]

#: Rising and falling, as a fraction of the curve's range
_RISING, _FALLING = 0.03, 0.1
_MIN_POINTS = 10
#: The threshold was reached early if it was before this fraction of the training
_EARLY = 0.6
_FEW_EPISODES = 20
#: Alerts that mean that nothing can be learned
_NO_SIGNAL = ("returns_equal", "nan")


class Trend(NamedTuple):
    """``rising``, ``flat`` or ``falling``, and the mean over the last fifth minus that over the fifth before."""

    kind: str
    change: float


def trend_of(score: Series) -> Trend | None:
    """The trend at the end of a curve; ``None`` if it has too few values."""
    score = score.finite
    if len(score.values) < _MIN_POINTS:
        return None
    first, last = score.steps[0], score.steps[-1]
    share = (score.steps - first) / max(last - first, 1)
    late, before = score.values[share >= 0.8], score.values[(share >= 0.6) & (share < 0.8)]
    if not len(late) or not len(before):
        return None
    change = float(late.mean() - before.mean())
    span = float(np.ptp(score.values))
    if change > _RISING * span:
        return Trend("rising", change)
    return Trend("falling" if change < -_FALLING * span else "flat", change)


def first_reached(series: Series, value: float) -> int | None:
    """The first step at which the curve reaches the value; ``None`` if it never does."""
    there = np.flatnonzero(series.values >= value)
    return int(series.steps[there[0]]) if len(there) else None


def reached_at(run: RunRecord) -> int | None:
    """The step at which an evaluation first reached the threshold; without evaluations, the training score."""
    scores = run.evaluation_scores if run.evaluations else run.settled_score
    return None if run.threshold is None else first_reached(scores, run.threshold.value)


def stays_from(run: RunRecord) -> int | None:
    """The step since which all evaluations (without any, the training score) were at or above the threshold."""
    if run.threshold is None:
        return None
    steps, values = run.evaluation_scores if run.evaluations else run.settled_score
    below = np.flatnonzero(~(values >= run.threshold.value))
    kept = steps[below[-1] + 1 :] if len(below) else steps
    return int(kept[0]) if len(kept) else None


def sorted_alerts(run: RunRecord) -> list[Mapping[str, Any]]:
    """The alerts that fired, the most frequent first."""
    fired = [alert for alert in run.alerts or () if alert.get("count")]
    return sorted(fired, key=lambda alert: (-float(alert.get("share") or 0), str(alert.get("id"))))


def suggestions(run: RunRecord, with_alerts: bool = True) -> list[str]:
    """
    What to try next, the most urgent first, with the numbers behind it.

    :param with_alerts: repeat the advice of the alerts
    """
    trend = trend_of(run.settled_score) or trend_of(run.score)
    said = [*_about_end(run), *_about_broken_numbers(run)]
    reached = reached_at(run)
    alerts = sorted_alerts(run)
    if reached is not None:
        said += _when_reached(run)
    elif any(alert.get("id") in _NO_SIGNAL for alert in alerts):
        pass  # the score is not learned, whatever its trend
    elif run.training.get("state") not in ("failed", "interrupted", "running"):
        said += _when_not_reached(run, trend, bool(alerts))
    for alert in alerts[:5] if with_alerts else ():
        advice = str(alert.get("advice") or "no advice").rstrip(". ")
        share = alert.get("share")
        checked = "" if share is None else f", {100 * float(share):.3g} % of those it was checked in"
        said.append(f"Alert `{alert.get('id')}` (in {number(float(alert['count']))} logged rows{checked}): {advice}.")
    return [*said, *_about_evaluation(run, reached)]


def _about_end(run: RunRecord) -> list[str]:
    state = run.training.get("state")
    if state == "failed":
        return [f"The training failed: `{run.training.get('error') or 'unknown error'}`. Fix that first."]
    left = (run.planned_steps or 0) - (run.steps or 0)
    if state == "interrupted" and left > 0 and (command := _continue(run, left, run.final_model)):
        return [f"It was interrupted with {number(left)} steps to go. Continue: {command}"]
    if state == "running":
        # RL Zoo saves the final model at the end
        models = [path for path in run.folder.glob("[!.]*.zip") if path.is_file()]
        saved = sorted(models, key=lambda path: path.stat().st_mtime_ns)
        command = _continue(run, left, saved[-1]) if saved and left > 0 else None
        then = f"continue from its latest model: {command}" if command else "start it again."
        return [f"It has not ended. If its process was killed (out of memory, `kill -9`, a power cut), {then}"]
    return []


def _about_broken_numbers(run: RunRecord) -> list[str]:
    broken = {
        name: curve
        for name, curve in run.progress.curves.items()
        if curve.n_broken and name != "train/explained_variance"  # it is NaN if all returns are equal
    }
    if not broken:
        return []
    first = min(broken, key=lambda name: broken[name].broken_from or 0)
    step = number(broken[first].broken_from or 0)
    names = ", ".join(f"`{name}` ({curve.n_broken} values)" for name, curve in sorted(broken.items()))
    return [
        f"Not finite: {names}; the first was `{first}` at step {step}. Lower `learning_rate`, and check the "
        "environment's observations and rewards."
    ]


def _when_reached(run: RunRecord) -> list[str]:
    said = []
    step = stays_from(run)
    is_fresh = not run.args.get("trained_agent")
    if is_fresh and run.steps and step is not None and step <= _EARLY * run.steps:
        command = _train(run, n_timesteps=math.ceil(1.25 * step))
        shorter = f", here with a margin of a quarter (schedules then change faster): {command}" if command else "."
        what = "all evaluations were" if run.evaluations else "the score was"
        said.append(
            f"Since step {number(step)} of {number(run.steps)}, {what} at or above the threshold. Fewer steps may be "
            f"enough{shorter}"
        )
    scores = run.evaluation_scores.values if run.evaluations else run.score.values
    last = float(scores[-1])
    if run.threshold is not None and last < run.threshold.value:
        keep_best = " Keep the best model (`best_model.zip`)." if run.has_best_model else ""
        said.append(
            f"The score fell below the threshold again, to {number(last)} at the end.{keep_best} {_calmer(run)}, or "
            "stop when it is solved."
        )
    return said


def _when_not_reached(run: RunRecord, trend: Trend | None, has_alerts: bool) -> list[str]:
    until = "" if run.threshold is None else f" The threshold of {number(run.threshold.value)} was not reached."
    if run.training.get("stop_reason"):
        # The same command with more steps would stop there again
        advice = f" {said}" if (said := run.training.get("stop_advice")) else ""
        return [
            f"A callback stopped the training early.{until}{advice} Otherwise try another seed, more exploration "
            "(`ent_coef`) or a larger network."
        ]
    if trend is None:
        if run.threshold is None or not (run.evaluations or len(run.score.values)):
            return []
        longer = _train(run, n_timesteps=2 * (run.planned_steps or run.steps or 0))
        how = f": {longer}" if longer else "."
        return [f"{until.strip('. ')}, and there are too few scores to see a trend. Train longer{how}"]
    change = f"the mean of the last fifth is {number(abs(trend.change))}"
    if trend.kind == "rising":
        more = run.steps or run.planned_steps or 0
        said = f"The score is still rising: {change} above that of the previous fifth.{until} Train longer."
        if command := _continue(run, more, run.final_model):
            is_exact = (run.folder / RESUME_FILE).is_file()
            said += (
                f" Continue from the end: {command} (schedules {'stretch' if is_exact else 'start over'}). Or start "
            )
            said += f"again with stretched schedules: {_train(run, n_timesteps=2 * more)}"
        return [said]
    if trend.kind == "falling":
        play_best = " Play the best model (`best_model.zip`)." if run.has_best_model else ""
        return [
            f"The score was falling at the end: {change} below that of the previous fifth.{until}{play_best} "
            f"{_calmer(run)}."
        ]
    if run.threshold is None:
        return [f"The score is flat at the end: {change} from that of the previous fifth. More steps alone won't help."]
    if has_alerts:
        return [f"The score is flat at the end.{until} More steps alone won't help: start with the alerts."]
    search = train_command(run, n_timesteps=run.planned_steps or run.steps or -1)
    tune = f" `{search} -optimize --n-trials 50`" if search else ""
    nobody = " Alerts were off." if run.alerts is None else " No alert fired."
    return [
        f"The score is flat at the end.{until} More steps alone won't help.{nobody} Try another seed first, then more "
        f"exploration (`ent_coef`), a larger network, or a hyperparameter search:{tune}"
    ]


def _calmer(run: RunRecord) -> str:
    rate = run.config.get("learning_rate")
    has_schedule = isinstance(rate, Mapping | list) or (isinstance(rate, str) and rate.startswith("lin_"))
    return "Lower `learning_rate`" if has_schedule else "Lower `learning_rate`, or let it decrease (`lin_…`)"


def _about_evaluation(run: RunRecord, reached: int | None) -> list[str]:
    said = []
    if run.threshold is None:
        said.append(
            "This environment has no threshold, so the report can't say whether it is solved. Set one: "
            "`ext: {threshold: …}`, or `sb3-ext report … --threshold …`."
        )
    # A short training ends before its first evaluation
    is_known = run.progress.file and run.training.get("state") == "finished"
    if not run.evaluations and (is_known or not run.training.get("evaluates")):
        every = min(10_000, (run.steps or 50_000) // 5)
        said.append(
            "There was no evaluation: the score is that of the exploring agent, and no best model was saved. Evaluate "
            f"during training (`--eval-freq {max(1, every)} --eval-episodes 20`)."
        )
    if run.threshold is None or not run.evaluations:
        return said
    last = run.evaluations[-1]
    is_close = last.error is not None and abs(last.mean - run.threshold.value) < 2 * last.error
    if last.n_episodes is not None and last.n_episodes < _FEW_EPISODES and is_close:
        said.append(
            f"The last evaluation has {last.n_episodes} episodes, and its mean is within two standard errors of the "
            f"threshold. Evaluate with more episodes (`--eval-episodes {_FEW_EPISODES}`)."
        )
    of_training = first_reached(run.settled_score, run.threshold.value)
    if reached is None and of_training is not None:
        said.append(
            f"The exploring agent reached the threshold in training (step {number(of_training)}), but not in an "
            "evaluation. Does the task need random actions while the evaluation is deterministic, or do the "
            "environments differ?"
        )
    return said


def _continue(run: RunRecord, steps: int, model: Path | None) -> str | None:
    """:param steps: how many more"""
    if (run.folder / RESUME_FILE).is_file():
        return f"`{resume_command(run.folder, run.steps or 0, run.planned_steps or 0, steps)}`"
    return None if model is None else _train(run, trained_agent=shown_path(model), n_timesteps=steps)


def _train(run: RunRecord, **changes: Any) -> str | None:
    command = train_command(run, **changes)
    return None if command is None else f"`{command}`"
