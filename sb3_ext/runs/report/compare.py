"""Groups runs that differ only in their seed, and compares the groups: scores over seeds with their uncertainty."""

import statistics
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from sb3_ext.metrics.sample_efficiency import SampleEfficiency
from sb3_ext.metrics.statistics import ENOUGH_SEEDS, Estimate, estimate, probability_of_improvement
from sb3_ext.runs.record import RunRecord
from sb3_ext.runs.report.advice import reached_at
from sb3_ext.runs.report.charts import number

__all__ = ["Comparison", "Group", "compare", "final_score", "flattened", "group_runs", "is_evaluated", "settings_of"]

#: Settings that don't change what a training learns
_NO_SETTING = ("ext.table", "ext.report", "ext.tracking", "ext.alerts", "ext.metrics", "verbose")
#: RL Zoo's arguments that override the config
_OVERRIDING = ("n_timesteps", "env_kwargs", "trained_agent")
#: Names and values of settings
_Key = tuple[tuple[str, str], ...]
#: Settings shown in a label
_MAX_SHOWN = 4


@dataclass(frozen=True)
class Group:
    """
    Runs of one environment that count as seeds of the same training.

    :param label: the algorithm, and the settings in which it differs from other groups
    :param runs: one for each seed
    """

    env_id: str
    label: str
    runs: tuple[RunRecord, ...]

    @property
    def seeds_text(self) -> str:
        return f"{len(self.runs)} seed{'s' * (len(self.runs) != 1)}"


def group_runs(runs: Sequence[RunRecord], by: Sequence[str] = ()) -> tuple[list[Group], list[str]]:
    """
    :param by: settings that tell runs apart, such as ``algo`` or ``learning_rate``; ``folder`` keeps each run by
        itself. By default all settings but the seed
    :return: the groups in the order of their first run, by environment; notes about runs that don't count or did not
        finish
    """
    settings = [settings_of(run) for run in runs]
    known = {name for of_run in settings for name in of_run}
    for name in by:
        if name not in known:
            raise ValueError(f"--by {name}: no run has this setting. Known: {', '.join(sorted(known))}.")
    members: dict[tuple[str, _Key], list[RunRecord]] = {}
    for run, of_run in zip(runs, settings, strict=True):
        varying = _varying([other for other in settings if other["env"] == of_run["env"]], of_run["algo"])
        names = by or ["algo", *varying]
        key = tuple((name, of_run[name]) for name in names if name in of_run and name != "env")
        members.setdefault((of_run["env"], key), []).append(run)
    order = [of_run["env"] for of_run in settings]
    groups, notes = [], []
    for (env_id, key), of_group in sorted(members.items(), key=lambda item: order.index(item[0][0])):
        kept = _one_per_seed(of_group)
        if len(kept) < len(of_group):
            notes.append(f"{_label(key)}: {len(of_group) - len(kept)} more of the same seeds don't count.")
        n_unfinished = sum(run.training.get("state", "finished") != "finished" for run in kept)
        if n_unfinished:
            notes.append(f"{_label(key)}: {n_unfinished} of {len(kept)} runs did not finish, or have not yet.")
        groups.append(Group(env_id, _label(key), tuple(kept)))
    return groups, notes


def settings_of(run: RunRecord) -> dict[str, str]:
    """Everything that defines a training but its seed, as texts by name."""
    given = {name: run.args[name] for name in _OVERRIDING if run.args.get(name) not in (None, "", -1, {})}
    flat = dict(flattened({**(run.config or run.training.get("hyperparams") or {}), **given}))
    algo = run.algo or str(run.training.get("algo") or "unknown")
    settings = {"algo": algo, "env": run.env_id or "unknown", "folder": str(run.folder)}
    return settings | {name: text for name, text in flat.items() if not name.startswith(_NO_SETTING)}


def flattened(settings: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, str]]:
    """Names, with dots for what is nested, and values as texts."""
    for name, value in settings.items():
        if isinstance(value, Mapping):
            yield from flattened(value, f"{above}{name}.")
        else:
            is_number = isinstance(value, int | float) and not isinstance(value, bool)
            yield f"{above}{name}", number(value) if is_number else str(value)


def _varying(settings: Sequence[Mapping[str, str]], algo: str) -> list[str]:
    """Names of the settings in which runs of an algorithm differ."""
    of_algo = [of_run for of_run in settings if of_run["algo"] == algo]
    names = dict.fromkeys(name for of_run in of_algo for name in of_run if name != "folder")
    return [name for name in names if len({of_run.get(name) for of_run in of_algo}) > 1]


def _label(key: _Key) -> str:
    words = [value if name in ("algo", "folder") else f"{name} {value}" for name, value in key]
    more = [f"{len(words) - _MAX_SHOWN} more"] if len(words) > _MAX_SHOWN else []
    return ", ".join([*words[:_MAX_SHOWN], *more]) or "all"


def _one_per_seed(runs: Sequence[RunRecord]) -> list[RunRecord]:
    """The longest run of each seed: a second one with the same seed is the same again, and no evidence."""
    best: dict[Any, RunRecord] = {}
    for run in runs:
        seed = run.args.get("seed", run.training.get("seed"))
        place = run.folder if seed is None else seed
        if place not in best or (run.steps or 0) > (best[place].steps or 0):
            best[place] = run
    return list(best.values())


@dataclass(frozen=True)
class Comparison:
    """
    :param score: interquartile mean of the final scores
    :param efficiency: interquartile mean of the mean score over the whole training
    :param reached: how many runs reached the threshold
    :param steps: median of their steps until then; ``None`` without any
    :param seconds: median time of a training
    :param better: probability that a run scores higher than one of the first group; ``None`` for that group itself
    """

    group: Group
    scores: tuple[float, ...]
    score: Estimate
    efficiency: Estimate
    reached: int
    steps: float | None
    seconds: float | None
    better: Estimate | None

    @property
    def verdict(self) -> str:
        """Whether it is better than the first group, in a few words."""
        if self.better is None:
            return "baseline"
        if self.better.n_seeds < ENOUGH_SEEDS:
            return "too few seeds to tell"
        if self.better.low > 0.5:
            return "better"
        return "worse" if self.better.high < 0.5 else "no clear difference"


def compare(groups: Sequence[Group]) -> list[Comparison]:
    """Compare groups of one environment with the first of them. All use evaluations, if all runs have some."""
    evaluated = is_evaluated(groups)
    scores = [tuple(final_score(run, evaluated) for run in group.runs) for group in groups]
    compared = []
    for group, own in zip(groups, scores, strict=True):
        steps = [step for run in group.runs if (step := reached_at(run)) is not None]
        seconds = [run.seconds for run in group.runs if run.seconds is not None]
        compared.append(
            Comparison(
                group,
                own,
                score=estimate([own]),
                efficiency=estimate([[_area(run) for run in group.runs]]),
                reached=len(steps),
                steps=statistics.median(steps) if steps else None,
                seconds=statistics.median(seconds) if seconds else None,
                better=None if group is groups[0] else probability_of_improvement([own], [scores[0]]),
            )
        )
    return compared


def is_evaluated(groups: Sequence[Group]) -> bool:
    return all(run.evaluations for group in groups for run in group.runs)


def final_score(run: RunRecord, evaluated: bool) -> float:
    """NaN if the run has none."""
    values = run.evaluation_scores.values if evaluated else run.score.values
    return float(values[-1]) if len(values) else np.nan


def _area(run: RunRecord) -> float:
    """Mean score of the training episodes over all steps, as ``rollout/score_auc``."""
    efficiency, metrics = SampleEfficiency(int(run.training.get("steps_at_start") or 0)), {}
    for step, value in zip(*run.score.finite, strict=True):
        metrics = efficiency.add(int(step), float(value))
    return metrics.get("rollout/score_auc", np.nan)
