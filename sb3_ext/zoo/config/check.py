"""The check of a section, for ``sb3-ext config check`` and before every training that has options of ours."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import gymnasium as gym
from rl_zoo3.utils import ALGOS
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_ext.common.arguments import to_integer
from sb3_ext.common.names import check_choice, nearest, suggestion
from sb3_ext.common.options import find_problems
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.transfer import find_weights
from sb3_ext.runs.find_run import find_run
from sb3_ext.runs.registry import LOG_FOLDER
from sb3_ext.zoo.config import parts
from sb3_ext.zoo.config.files import Section, find_section
from sb3_ext.zoo.config.reader import ConfigError, Problem, read_config
from sb3_ext.zoo.config.schema import SET_BY_FLAGS, section_parameters
from sb3_ext.zoo.options import ExtOptions, with_defaults
from sb3_ext.zoo.registry import ALGORITHMS
from sb3_ext.zoo.resume import requested_section, split_checkpoint
from sb3_ext.zoo.train_flags import fold_ext
from sb3_ext.zoo.upstream import GENERAL_SECTIONS

__all__ = ["check_file", "check_section", "check_training", "section_keys", "training_section"]

#: Place of a key, by its path in the section
Where = Callable[[Iterable[Any]], str]


def check_file(
    path: str | Path, algo: str | None = None, env_id: str | None = None, log_folder: str | None = None
) -> list[Problem]:
    """
    :param algo: by default the one that the file is named after
    :param env_id: only the section of this environment
    :param log_folder: where the runs are that sections name; by default RL Zoo's, and a missing run is a warning
    :return: in the order of their lines
    :raises ConfigError: when the file can't be read, or has no such section
    """
    algo = algo or Path(path).stem
    check_choice("--algo", algo, ALGOS)
    file = read_config(path)
    if env_id is not None and env_id not in file.sections:
        raise ConfigError(
            str(path), f"--env: there is no section {env_id!r}: {nearest(env_id, list(map(str, file.sections)))}"
        )
    problems = list(file.problems)
    for name, section in file.sections.items():
        if env_id in (None, name):
            where = Section(file.path, str(name), section, file).where
            problems += check_section(section, algo, str(name), where, log_folder=log_folder)
    return _in_order(problems)


def training_section(
    config: str | None, algo: str, env_id: str, is_atari: bool, typed: Mapping[str, Any] | None
) -> Section:
    """
    The section of a training, also of one that is resumed.

    :param typed: hyperparameters of the command line
    """
    resumed = requested_section(typed)
    if resumed is None:
        section = find_section(config, algo, env_id, is_atari)
    else:
        section = Section("the run to resume", env_id, resumed, None)
    typed = typed or {}
    return section._replace(values=fold_ext({**section.values, **typed}), overridden=dict.fromkeys(typed, "-params"))


def check_training(
    section: Section, hyperparams: Any, algo: str, env_id: str, has_budget: bool, log_folder: str
) -> list[Problem]:
    """:param hyperparams: those of the section and of all that overrides it"""
    of_file = [] if section.file is None else section.file.problems
    return _in_order([*of_file, *check_section(hyperparams, algo, env_id, section.where, has_budget, log_folder)])


def _in_order(problems: Iterable[Problem]) -> list[Problem]:
    return sorted(problems, key=lambda problem: problem.line)


def section_keys(algo: str) -> list[str]:
    """Keys of a section, in their canonical order."""
    return [*section_parameters(ALGOS[algo]), "ext"]


def check_section(
    section: Any, algo: str, env_id: str, where: Where, has_budget: bool = False, log_folder: str | None = None
) -> list[Problem]:
    """
    Everything that is wrong with a section.

    :param env_id: an environment, or ``default`` or ``atari``
    :param has_budget: whether the number of timesteps is known without the section
    :param log_folder: see :func:`check_file`
    """
    if not isinstance(section, Mapping):
        return [Problem(where(()), f"{env_id} has the value {section!r}: expected a mapping of hyperparameters.")]
    is_installed = env_id in gym.registry or env_id in GENERAL_SECTIONS
    problems = [Problem(where(path), text) for path, text in _errors(section, algo, env_id, has_budget)]
    if not is_installed:
        # Its wrappers may be missing with it, as in most of RL Zoo's files
        problems = [p._replace(is_warning="there is no module" in p.text) for p in problems]
        unknown = f"no environment {env_id!r} is installed{suggestion(env_id, list(gym.registry))}"
        problems.append(Problem(where(()), unknown, is_warning=True))
    if isinstance(section.get("ext"), Mapping):
        missing = _missing_runs(section["ext"], log_folder or LOG_FOLDER)
        problems += [Problem(where(path), text, is_warning=log_folder is None) for path, text in missing]
    if not any(problem.text.startswith(("n_", "batch_")) for problem in problems):
        problems += [Problem(where(path), text, True) for path, text in _batch_warnings(section, ALGOS[algo])]
    return problems


def _missing_runs(ext: Mapping[str, Any], log_folder: str) -> parts.Found:
    """Runs to resume or to take weights from, except those of W&B, which are downloaded."""
    source, resume = ext.get("init_from"), ext.get("resume")
    resume = resume.get("run") if isinstance(resume, Mapping) else resume
    try:
        if isinstance(source, str) and "wandb" not in source:
            find_weights(source, log_folder)
    except UsageError as error:
        yield ("ext", "init_from"), f"ext: init_from: {str(error).removeprefix('init_from: ')}"
    try:
        if isinstance(resume, str) and "wandb" not in resume:
            find_run(split_checkpoint(resume)[0], log_folder)
    except UsageError as error:
        yield ("ext", "resume"), f"ext: resume: {error}"


def _errors(section: Mapping[str, Any], algo: str, env_id: str, has_budget: bool) -> parts.Found:
    """Of the section's values, and at last of those together that are right each by itself."""
    found = list(_errors_of_values(section, algo, env_id, has_budget))
    yield from found
    yield from parts.option_problems(ALGOS[algo], section, {path[0] for path, _ in found if path})


def _errors_of_values(section: Mapping[str, Any], algo: str, env_id: str, has_budget: bool) -> parts.Found:
    algorithm = ALGOS[algo]
    wrong = dict(_value_problems(section, algorithm))
    yield from (((name,), line) for name, line in wrong.items())
    for name, example in (("n_timesteps", "1000000"), ("policy", next(iter(algorithm.policy_aliases)))):
        if name not in section and not (has_budget and name == "n_timesteps"):
            yield (), f"{env_id} needs {name}, such as {example}."
    right = {key: value for key, value in section.items() if key not in wrong}
    yield from parts.policy_problems(algorithm, right)
    for key in ("env_wrapper", "vec_env_wrapper", "callback"):
        yield from parts.entry_problems(key, right.get(key))
    yield from parts.normalize_problems(right)
    for line in parts.env_problems(env_id, right.get("env_kwargs")):
        yield ("env_kwargs",), f"env_kwargs: {line}"
    if "ext" in right:
        options = with_defaults(right["ext"]) if algo in ALGORITHMS else right["ext"]
        for path, line in find_problems(ExtOptions, options, "ext"):
            yield ("ext", *path), line
    if not {"batch_size", "n_steps", "n_envs"} & set(wrong):
        yield from _batch_errors(right, algorithm)


def _value_problems(section: Mapping[str, Any], algorithm: type[BaseAlgorithm]) -> Iterator[tuple[str, str]]:
    """By key; unknown keys, and values that have the wrong type or are out of range."""
    parameters = section_parameters(algorithm)
    for name, raw in section.items():
        if name == "ext":
            continue
        if name in SET_BY_FLAGS:
            yield name, f"{name} is not set in a section: use {SET_BY_FLAGS[name]} on the command line."
        elif name not in parameters:
            known = [*parameters, "ext"]
            yield name, f"{algorithm.__name__} has no parameter {name!r}: {nearest(str(name), known)}"
        else:
            line = parameters[name].problem(raw)
            if line is not None:
                yield name, line


def _rollout(section: Mapping[str, Any], algorithm: type[BaseAlgorithm]) -> tuple[int, int, bool] | None:
    """Batch size, size of a rollout, and whether advantages are normalised, for algorithms with minibatches."""
    parameters = section_parameters(algorithm)
    if not {"n_steps", "batch_size", "n_epochs"} <= set(parameters):
        return None
    given = {name: section.get(name, parameters[name].default) for name in ("n_steps", "batch_size")}
    normalizes = bool(section.get("normalize_advantage", True))
    if given["batch_size"] is None:
        return None
    size = to_integer(given["n_steps"]) * to_integer(section.get("n_envs", 1))
    return to_integer(given["batch_size"]), size, normalizes


def _batch_errors(section: Mapping[str, Any], algorithm: type[BaseAlgorithm]) -> Iterator[tuple[Any, str]]:
    """Where SB3's PPO and our REINFORCE stop."""
    rollout = _rollout(section, algorithm)
    batch_size = section.get("batch_size")
    needs_two = hasattr(algorithm, "schedulable") if rollout is None else rollout[2]
    if batch_size is not None and needs_two and to_integer(batch_size) < 2:
        yield (
            ("batch_size",),
            f"batch_size={batch_size!r} must be at least 2: advantages of one sample have no deviation.",
        )
    if rollout is not None and rollout[1] < 2 and rollout[2]:
        yield ("n_steps",), "n_steps * n_envs must be at least 2: advantages of one sample have no deviation."


def _batch_warnings(section: Mapping[str, Any], algorithm: type[BaseAlgorithm]) -> Iterator[tuple[Any, str]]:
    """Where SB3's PPO warns, and trains all the same."""
    rollout = _rollout(section, algorithm)
    if rollout is None or rollout[1] % rollout[0] == 0:
        return
    batch_size, size, _ = rollout
    rest = f"the last minibatch has {size % batch_size}"
    yield ("batch_size",), f"batch_size={batch_size} does not divide n_steps * n_envs = {size}: {rest}."
