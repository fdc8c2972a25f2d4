"""Lets RL Zoo's commands play a best model or a checkpoint with the statistics that were saved with it.

RL Zoo knows one file of statistics for a run, that of its end, and loads it for all models. Its commands ask
``get_model_path`` for a model, then hand ``create_test_env`` the folder of that file: here the second is told what the
first was asked for. Where a model has no statistics of its own, RL Zoo's are used as ever, with a warning.
"""

from __future__ import annotations

import functools
import inspect
import os
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sb3_ext.runs.agents.checkpoint import find_checkpoints
from sb3_ext.runs.agents.statistics import matching_statistics, statistics_path
from sb3_ext.zoo.played_envs import as_trained, without_shaping
from sb3_ext.zoo.registry import ALGORITHMS

__all__ = ["load_statistics_of_the_model", "statistics_or_warning"]

#: The folder of RL Zoo's statistics for a run: the model that was last asked for, unless it is the final one
_asked_for: dict[str, str] = {}
#: Such folders of runs of our algorithms
_ours: set[str] = set()


def load_statistics_of_the_model() -> None:
    """Extend RL Zoo's two functions, also in modules that imported them by name before."""
    from rl_zoo3.utils import create_test_env, get_model_path

    _replace(get_model_path, _remembering_the_model)
    _replace(create_test_env, _with_its_statistics)


def statistics_or_warning(model_path: str, is_normalized: bool) -> Path | None:
    """
    :param model_path: a saved model
    :param is_normalized: whether its run normalises, so that statistics are expected
    :return: the statistics that were saved with it, if there are any
    """
    if not is_normalized and not statistics_path(model_path).is_file():
        return None
    try:
        return matching_statistics(model_path)
    except (FileNotFoundError, ValueError) as error:
        warnings.warn(
            f"{error} RL Zoo takes those of the end of training, with which the model's score may be another than it "
            "was.",
            stacklevel=2,
        )
        return None


def _replace(function: Callable[..., Any], extend: Callable[..., Any]) -> None:
    if hasattr(function, "__wrapped__"):
        return
    name = function.__name__
    extended = functools.wraps(function)(extend(function))
    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] in ("rl_zoo3", "__main__") and getattr(module, name, None) is function:
            setattr(module, name, extended)


def _remembering_the_model(get_model_path: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(get_model_path)

    def get_and_remember(*args: Any, **kwargs: Any) -> tuple[str, str, str]:
        asked = signature.bind(*args, **kwargs).arguments
        env_name = asked["env_name"]
        try:
            name_prefix, model_path, log_path = get_model_path(*args, **kwargs)
        except ValueError as error:
            if asked["algo"] not in ALGORITHMS:
                raise
            raise ValueError(f"{error}. {_options_that_work(asked)}") from None
        folder = os.path.abspath(os.path.join(log_path, env_name))
        if asked["algo"] in ALGORITHMS:
            _ours.add(folder)
        if os.path.basename(model_path) == f"{env_name}.zip":
            _asked_for.pop(folder, None)
        else:
            _asked_for[folder] = model_path
        return name_prefix, model_path, log_path

    return get_and_remember


def _options_that_work(asked: dict[str, Any]) -> str:
    """Which models of the run can be loaded, and how."""
    from rl_zoo3.utils import get_latest_run_id

    above, env_name = os.path.join(asked["folder"], asked["algo"]), asked["env_name"]
    run_id = asked["exp_id"] or get_latest_run_id(above, env_name)
    if run_id <= 0:
        return f"{above} has no run of {env_name}: train one, or choose the folder with -f."
    run = Path(above, f"{env_name}_{run_id}")
    options = ["the final model (no option)"] if (run / f"{env_name}.zip").is_file() else []
    for checkpoint in find_checkpoints(run):
        if checkpoint.kind == "best":
            options.append("--load-best")
        elif checkpoint.kind == "step":
            options.append(f"--load-checkpoint {checkpoint.step}")
    if not options:
        return f"{run} has no model to play: choose another run with --exp-id."
    return f"{run} has: {', '.join(options)}."


def _with_its_statistics(create_test_env: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(create_test_env)

    def create_to_play(*args: Any, **kwargs: Any) -> Any:
        given = signature.bind(*args, **kwargs)
        stats_path = given.arguments.get("stats_path")
        folder = None if stats_path is None else os.path.abspath(stats_path)
        if folder in _ours:
            given.arguments["env_kwargs"] = as_trained(given.arguments)
        return without_shaping(create_with_statistics(given, None if folder is None else _asked_for.get(folder)))

    def create_with_statistics(given: inspect.BoundArguments, model_path: str | None) -> Any:
        hyperparams = given.arguments.get("hyperparams") or {}
        if model_path is None or not hyperparams.get("normalize"):
            return create_test_env(*given.args, **given.kwargs)
        statistics = statistics_or_warning(model_path, is_normalized=True)
        if statistics is None:
            return create_test_env(*given.args, **given.kwargs)
        print(f"Statistics saved with the model: {statistics}")
        with tempfile.TemporaryDirectory() as folder:
            # The only name that RL Zoo looks for
            shutil.copy(statistics, Path(folder, "vecnormalize.pkl"))
            given.arguments["stats_path"] = folder
            return create_test_env(*given.args, **given.kwargs)

    return create_to_play
