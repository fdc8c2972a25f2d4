"""What a language model is told of a study. The length does not grow with the number of trials."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from itertools import chain, zip_longest
from typing import Any

import optuna
import yaml
from optuna.trial import FrozenTrial, TrialState

from sb3_ext.common.clean_text import mask_passwords, printable
from sb3_ext.runs.report.charts import without_padding
from sb3_ext.tune.report import report_text
from sb3_ext.tune.space import SearchSpace

__all__ = ["correction", "ranked", "values_of", "write_prompt"]

#: Trials in the table: the best, and the latest
_BEST, _LATEST = 12, 12
#: Characters of a value in the table, of its rows, of a part of the prompt, and of an answer that is quoted
_MAX_VALUE, _MAX_TABLE, _MAX_PART, _MAX_QUOTE = 40, 7_000, 10_000, 2_000
_LONG_NUMBER = re.compile(r"\d+\.\d+(e-?\d+)?")

_TASK = """\
You tune the hyperparameters of a reinforcement learning algorithm (Stable-Baselines3).
Study the results below and propose the next configuration to train. A higher score is better.
"""

_RULES = """\
Answer with one YAML mapping, in a ```yaml block, and nothing after it:
- Keys are those of the search space, exactly as written there. A key with dots is one key, not a nested mapping.
- Values are inside the search space. Keys that you leave out keep the value of {base}.
- The configuration must differ from all trials so far.
- The key `note` is optional: one sentence that says why you propose this.

Example of the form:
```yaml
{example}
note: why this should help
```
"""


def write_prompt(space: SearchSpace, study: optuna.Study, start: Mapping[str, Any]) -> str:
    """:param start: the section that the study starts from"""
    settings = study.user_attrs.get("settings", {})
    known = ("timesteps", "seeds", "evaluations", "episodes", "objective", "threshold")
    facts = [f"- {name}: {settings[name]}" for name in known if settings.get(name) is not None]
    best = ranked(study)[:1]
    base = f"trial {best[0].number}, the best so far" if best else "the start"
    section = yaml.safe_dump(dict(start), sort_keys=False, allow_unicode=True)
    example = "\n".join(f"{key}: {_shown(value)}" for key, value in list(_start_values(space, start).items())[:2])
    parts = {
        "The task": "\n".join([_TASK, f"- algorithm: {space.algo}", f"- environment: {space.env_id}", *facts]),
        "The search space": space.describe(),
        "The start": f"```yaml\n{section}```",
        "Report": without_padding(report_text(study)).replace("\n#", "\n##").removeprefix("# "),
        "Trials": _table(space, study),
        "Your answer": _RULES.format(base=base, example=example),
    }
    text = "\n\n".join(f"# {title}\n{part.strip()[:_MAX_PART]}" for title, part in parts.items())
    return printable(mask_passwords(text)) + "\n"


def correction(prompt: str, answer: str, mistakes: Sequence[str]) -> str:
    """The prompt again, with what was wrong with the answer to it."""
    wrong = "\n".join(f"- {mistake}" for mistake in mistakes)
    quote = printable(answer.strip()[-_MAX_QUOTE:]).replace("```", "")
    ending = f"It can't be used:\n{wrong}\n\nAnswer again, in the same form."
    return f"{prompt}\n# Your last answer\n```\n{quote}\n```\n{ending}\n"


def ranked(study: optuna.Study) -> list[FrozenTrial]:
    """Complete trials, best first; of equals, the earlier one."""
    complete = study.get_trials(deepcopy=False, states=(TrialState.COMPLETE,))
    return sorted(complete, key=lambda trial: (-(trial.value or 0.0), trial.number))


def values_of(space: SearchSpace, params: Mapping[str, Any]) -> dict[str, Any]:
    """Values of the searched keys, as in a section."""
    values: dict[str, Any] = {}
    for dimension in space.dimensions:
        if dimension.is_active(values):
            try:
                values[dimension.key] = dimension.decode(params)
            except KeyError:
                continue  # the trial ended before it had all its parameters
    return values


def _start_values(space: SearchSpace, start: Mapping[str, Any]) -> dict[str, Any]:
    try:
        return values_of(space, space.params_of(start))
    except ValueError:
        return {dimension.key: dimension.corners()[0] for dimension in space.dimensions}


def _table(space: SearchSpace, study: optuna.Study) -> str:
    trials = [trial for trial in study.get_trials(deepcopy=False) if trial.state != TrialState.WAITING]
    keys = [dimension.key for dimension in space.dimensions]
    rows: dict[int, str] = {}
    # In turn, so that both are there if the table gets too long
    for trial in chain(*zip_longest(ranked(study)[:_BEST], reversed(trials[-_LATEST:]))):
        if trial is not None and sum(map(len, rows.values())) < _MAX_TABLE:
            values = values_of(space, trial.params)
            cells = (_shown(values[key])[:_MAX_VALUE] if key in values else "-" for key in keys)
            row = [str(trial.number), str(trial.user_attrs.get("proposed_by", "?")), _result(trial), *cells]
            rows[trial.number] = " | ".join(row)
    if not rows:
        return "None yet."
    left_out = f"{len(rows)} of {len(trials)} trials: the best and the latest.\n" * (len(rows) < len(trials))
    return left_out + "\n".join(
        [" | ".join(["trial", "proposed by", "result", *keys]), *(rows[number] for number in sorted(rows))]
    )


def _result(trial: FrozenTrial) -> str:
    if trial.state == TrialState.COMPLETE:
        return f"{trial.value:.5g}"
    if trial.state == TrialState.PRUNED:
        return f"stopped early, after {len(trial.intermediate_values)} evaluations"
    return {TrialState.RUNNING: "running", TrialState.FAIL: "failed"}[trial.state]


def _shown(value: Any) -> str:
    return _LONG_NUMBER.sub(lambda number: f"{float(number[0]):.4g}", json.dumps(value))
