"""Parts of a report about the score: in training, in evaluations, compared with the threshold, and per step."""

import math

from sb3_ext.metrics.sample_efficiency import SampleEfficiency
from sb3_ext.runs.logs import WINDOW
from sb3_ext.runs.record import SCORE, EvaluationResult, RunRecord
from sb3_ext.runs.report.advice import first_reached, reached_at
from sb3_ext.runs.report.charts import markdown_table, number
from sb3_ext.runs.report.curves import shown_curve

__all__ = ["efficiency", "score", "verdict"]

#: Evaluations to show, evenly spaced, with the first, the last and the best
_MAX_EVALUATIONS = 12
#: Ratio above which Monitor's steps are more than the agent's: a wrapper outside it repeats actions
_MORE_STEPS = 1.3


def verdict(run: RunRecord) -> str:
    """The score and the threshold in one sentence, with the source of the score."""
    if run.evaluations:
        last = run.evaluations[-1]
        said = f"Last evaluation: {_plus_minus(last)} ({_episodes(last)}, step {number(last.step)})"
        value = last.mean
    elif len(run.score.values):
        value = float(run.score.values[-1])
        missing = "No evaluation was saved" if run.training.get("evaluates") else "There was no evaluation"
        said = f"Score at the end of training: {number(value)} (with exploration; {_window(run)}). {missing}"
    else:
        return "No score: no episode ended, or no file has the scores."
    if run.threshold is None:
        return f"{said}. There is no threshold."
    limit = f"the threshold of {number(run.threshold.value)}"
    step = reached_at(run)
    if value >= run.threshold.value:
        return f"**{said}: at or above {limit}** (first reached at step {number(step if step is not None else 0)})."
    if step is not None:
        return f"**{said}: below {limit}**, which was reached at step {number(step)} and lost again."
    return f"**{said}: {limit} was not reached.**"


def score(run: RunRecord) -> list[str]:
    threshold = run.threshold
    limit = None if threshold is None else threshold.value
    known = "unknown" if threshold is None else f"{number(threshold.value)}, {threshold.source}"
    lines = [f"Threshold: {known}.", "", *_score_table(run), ""]
    if len(run.score.values):
        name, source = "mean score", f"mean of up to {WINDOW} episodes, from Monitor's files"
        if SCORE in run.series:
            name, source = SCORE, f"`{SCORE}` of `{run.progress.file}`"
        lines += [f"### In training ({source})", *shown_curve(name, run.score, line=limit)]
    else:
        lines += ["Missing: no file has scores of training episodes.", ""]
    lines += _evaluation_part(run, limit)
    if (run.folder / "plots" / "score.png").is_file():
        lines += ["![score](plots/score.png)", ""]
    return [*lines, *_honest_notes(run)]


def efficiency(run: RunRecord) -> list[str]:
    finite = run.score.finite
    if not len(finite.values):
        return ["Missing: no file has scores of training episodes."]
    threshold = None if run.threshold is None else run.threshold.value
    efficiency = SampleEfficiency(int(run.training.get("steps_at_start") or 0))
    for step, value in zip(*finite, strict=True):
        efficiency.add(int(step), float(value))
    computed = efficiency.add(int(finite.steps[-1]), math.nan)
    logged = run.progress.latest("rollout/score_auc")
    area = computed["rollout/score_auc"] if logged is None else logged
    first, settled = float(finite.values[0]), run.settled_score
    best = float(settled.finite.values.max()) if len(settled.finite.values) else first
    rows = [
        ["mean score over the whole training (area under the curve / steps)", number(area)],
        ["best score in training", number(best)],
    ]
    most = first_reached(settled, first + 0.9 * (best - first))
    if best > first and most is not None:
        rows.append(["steps to 90 % of the way from the first to the best score", number(most)])
    if threshold is not None:
        in_training = first_reached(settled, threshold)
        rows.append(["steps to the threshold, in training", "never" if in_training is None else number(in_training)])
        if run.evaluations:
            step = reached_at(run)
            rows.append(["steps to the threshold, in an evaluation", "never" if step is None else number(step)])
    return [*markdown_table(["what", "value"], rows), ""]


def _episodes(evaluation: EvaluationResult) -> str:
    return "unknown number of episodes" if evaluation.n_episodes is None else f"{evaluation.n_episodes} episodes"


def _plus_minus(evaluation: EvaluationResult) -> str:
    return number(evaluation.mean) + ("" if evaluation.std is None else f" ± {number(evaluation.std)}")


def _window(run: RunRecord) -> str:
    n_episodes = min(WINDOW, len(run.episodes.scores)) if run.episodes.n_envs else f"up to {WINDOW}"
    return f"mean of the last {n_episodes} episodes"


def _score_table(run: RunRecord) -> list[str]:
    rows = []
    if run.evaluations:
        last, best = run.evaluations[-1], max(run.evaluations, key=lambda evaluation: evaluation.mean)
        rows.append(["last evaluation", _plus_minus(last), f"{_episodes(last)} at step {number(last.step)}"])
        among = f"{_episodes(best)} at step {number(best.step)}; the highest of {len(run.evaluations)}, so partly luck"
        rows.append(["best evaluation", _plus_minus(best), among])
    if len(run.score.values):
        end = run.score.steps[-1]
        rows.append(["end of training", number(run.score.values[-1]), f"{_window(run)}, at step {number(end)}"])
    settled = run.settled_score.finite
    if len(settled.values):
        index = int(settled.values.argmax())
        rows.append(["best in training", number(settled.values[index]), f"at step {number(settled.steps[index])}"])
    return markdown_table(["what", "score", "from"], rows) if rows else []


def _evaluation_part(run: RunRecord, limit: float | None) -> list[str]:
    if not run.evaluations:
        return ["### Evaluations", "Missing: there is no `evaluations.npz`, and no evaluation was logged.", ""]
    lines = [f"### Evaluations (`{run.evaluations_file}`)"]
    if len(run.evaluations) > 1:
        curve = shown_curve("eval/mean_reward", run.evaluation_scores, height=8, line=limit)
        lines += curve[: curve.index("```", 1) + 1]
    rows = []
    for evaluation in _sampled(run.evaluations):
        optional = (evaluation.std, evaluation.n_episodes, evaluation.mean_length)
        cells = ["" if value is None else number(value) for value in optional]
        rows.append([number(evaluation.step), number(evaluation.mean), *cells])
        if limit is not None:
            rows[-1].append(f"{'+' if evaluation.mean >= limit else ''}{number(evaluation.mean - limit)}")
    header = ["step", "mean score", "std", "episodes", "mean length", *([] if limit is None else ["minus threshold"])]
    left_out = len(run.evaluations) - len(rows)
    note = [f"{left_out} more are in `{run.evaluations_file}`."] if left_out else []
    return [*lines, *markdown_table(header, rows), *note, ""]


def _sampled(evaluations: tuple[EvaluationResult, ...]) -> list[EvaluationResult]:
    if len(evaluations) <= _MAX_EVALUATIONS:
        return list(evaluations)
    best = max(range(len(evaluations)), key=lambda index: evaluations[index].mean)
    n_others = _MAX_EVALUATIONS - 1
    kept = {round(index * (len(evaluations) - 1) / (n_others - 1)) for index in range(n_others)} | {best}
    return [evaluations[index] for index in sorted(kept)]


def _honest_notes(run: RunRecord) -> list[str]:
    notes = [
        "Scores are sums of the environment's raw rewards over an episode, before shaping and normalisation. Training "
        "scores come from the exploring policy (its actions are drawn at random), and a mean over past episodes lags "
        "behind the agent."
    ]
    if run.evaluations:
        how = {True: "deterministically", False: "at random"}.get(run.training.get("deterministic_eval"))  # type: ignore[arg-type]
        actions = f"Evaluations chose actions {how}." if how else "The files don't say how evaluations chose actions."
        notes.append(f"± is the standard deviation over the episodes of an evaluation. {actions}")
    if SCORE not in run.series and len(run.episodes.steps) and run.steps:
        counted = int(run.episodes.steps[-1])
        if counted > _MORE_STEPS * run.steps:
            notes.append(
                f"The curve counts Monitor's steps, {number(counted)} in total, and the model counts "
                f"{number(run.steps)}: a wrapper outside Monitor repeats actions."
            )
    return [*(f"- {note}" for note in notes), ""]
