"""The section that a study starts from, and others that are worth a trial before any sampler is asked."""

from __future__ import annotations

import json
from typing import Any

from sb3_ext.common.clean_text import say
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.facts import RunFacts
from sb3_ext.runs.find_run import find_run
from sb3_ext.tune.study import First
from sb3_ext.zoo.config.start import current_section, stock_section
from sb3_ext.zoo.resume import saved_section

__all__ = ["first_sections"]

#: They say what the task is: RL Zoo's hyperparameters are tried in ours
_TASK = ("env_kwargs", "env_wrapper", "vec_env_wrapper", "frame_stack", "n_timesteps", "callback", "ext")


def first_sections(
    algo: str, env_id: str, conf_file: str | None, run: str | None, log_folder: str, has_budget: bool
) -> list[First]:
    """
    Configurations to try first; the first one is the start.

    :param run: a run whose hyperparameters the study starts from, and every trial from its policy
    :param has_budget: whether the number of timesteps is known without the section
    :raises UsageError: when something is missing or wrong
    """
    current, stock = current_section(algo, env_id, conf_file, log_folder, has_budget), stock_section(algo, env_id)
    first = [First("start", current)]
    if stock is not None:
        task = {key: current[key] for key in _TASK if key in current}
        first.append(First("rl_zoo", {**{key: stock[key] for key in stock if key not in _TASK}, **task}))
    if run is None:
        return first
    of_run = _of_run(run, algo, env_id, log_folder)
    source = {"init_from": of_run["ext"]["init_from"]}
    others = [(name.replace("start", "current"), section) for name, section in first]
    return [
        First("run", of_run),
        *(First(name, {**section, "ext": {**(section.get("ext") or {}), **source}}) for name, section in others),
    ]


def _of_run(name: str, algo: str, env_id: str, log_folder: str) -> dict[str, Any]:
    folder = find_run(name, log_folder).resolve()
    facts = RunFacts.read(folder)
    if (facts.algo, facts.env_id) != (algo, env_id):
        raise UsageError(f"--from {name}: {folder} is a run of {facts.algo} on {facts.env_id}, not {algo} on {env_id}.")
    section = saved_section(folder)
    ext = {key: value for key, value in (section.get("ext") or {}).items() if key != "resume"}
    section = {**section, "ext": {**ext, "init_from": str(folder)}}
    try:
        json.dumps(section)
    except TypeError:
        raise UsageError(f"--from {name}: its config.yml has Python objects, which a study can't store.") from None
    say(f"The study starts from the hyperparameters and the policy of {folder}.")
    return section
