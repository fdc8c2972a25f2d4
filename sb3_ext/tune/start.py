"""The section that a study starts from, and others that are worth a trial before any sampler is asked."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from rl_zoo3.exp_manager import ExperimentManager
from rl_zoo3.utils import ALGOS

from sb3_ext.common.clean_text import say
from sb3_ext.common.names import check_choice, nearest
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.facts import RunFacts
from sb3_ext.runs.find_run import find_run
from sb3_ext.tune.study import First
from sb3_ext.zoo.config.check import check_training, training_section
from sb3_ext.zoo.config.files import find_section
from sb3_ext.zoo.config.reader import raise_problems
from sb3_ext.zoo.registry import STOCK_EQUIVALENT
from sb3_ext.zoo.resume import saved_section

__all__ = ["Start", "find_start"]

#: They say what the task is: RL Zoo's hyperparameters are tried in ours
_TASK = ("env_kwargs", "env_wrapper", "vec_env_wrapper", "frame_stack", "n_timesteps", "callback", "ext")


class Start(NamedTuple):
    """:param first: configurations to try, the start first"""

    section: dict[str, Any]
    first: list[First]


def find_start(
    algo: str, env_id: str, conf_file: str | None, run: str | None, log_folder: str, has_budget: bool
) -> Start:
    """
    :param run: a run whose hyperparameters and policy the study starts from
    :param has_budget: whether the number of timesteps is known without the section
    :raises UsageError: when something is missing or wrong
    """
    if env_id not in gym.registry:
        raise UsageError(f"There is no environment {env_id!r}: {nearest(env_id, list(gym.registry))}")
    check_choice("--algo", algo, ALGOS)
    is_atari = ExperimentManager.is_atari(env_id)
    section = training_section(conf_file, algo, env_id, is_atari, None)
    raise_problems(check_training(section, section.values, algo, env_id, has_budget, log_folder))
    values = dict(section.values)
    others = [First("rl_zoo", {**_of_rl_zoo(algo, env_id, is_atari), **_task_of(values)})]
    if run is None:
        return Start(values, [First("start", values), *others])
    of_run = _of_run(run, algo, env_id, log_folder)
    # Its policy is the start of every trial
    ext = {**(of_run.get("ext") or {}), "init_from": str(find_run(run, log_folder).resolve())}
    started = [First(name, {**other, "ext": {**(other.get("ext") or {}), **ext}}) for name, other in others]
    current = First("current", {**values, "ext": {**(values.get("ext") or {}), **ext}})
    return Start({**of_run, "ext": ext}, [First("run", {**of_run, "ext": ext}), current, *started])


def _of_rl_zoo(algo: str, env_id: str, is_atari: bool) -> dict[str, Any]:
    try:
        section = find_section(None, STOCK_EQUIVALENT.get(algo, algo), env_id, is_atari)
    except UsageError:
        return {}
    return {key: value for key, value in section.values.items() if key not in _TASK}


def _task_of(section: Mapping[str, Any]) -> dict[str, Any]:
    return {key: section[key] for key in _TASK if key in section}


def _of_run(name: str, algo: str, env_id: str, log_folder: str) -> dict[str, Any]:
    folder: Path = find_run(name, log_folder)
    facts = RunFacts.read(folder)
    if (facts.algo, facts.env_id) != (algo, env_id):
        raise UsageError(
            f"--from {name}: {folder} is a run of {facts.algo} on {facts.env_id}, not of {algo} on {env_id}."
        )
    say(f"The study starts from the hyperparameters and the policy of {folder}.")
    section = dict(saved_section(folder))
    ext = {key: value for key, value in (section.get("ext") or {}).items() if key != "resume"}
    return {**section, "ext": ext}
