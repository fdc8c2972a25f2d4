"""Lets RL Zoo's commands play each model as it was trained: with its statistics, in its task, for its own rewards."""

import functools
import inspect
import os
import shutil
import tempfile
import warnings
from pathlib import Path
from typing import Any, NamedTuple

from rl_zoo3.utils import create_test_env, get_latest_run_id, get_model_path
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.clean_text import say
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.bundle import RESUME_FILE
from sb3_ext.runs.agents.checkpoint import LAST, Checkpoint, find_checkpoints
from sb3_ext.runs.agents.statistics import matching_statistics, statistics_path
from sb3_ext.zoo.registry import ALGORITHMS
from sb3_ext.zoo.seams import replace_in_rl_zoo

__all__ = ["patch_playing", "statistics_or_warning"]


def patch_playing() -> None:
    """
    RL Zoo keeps one file of normalisation statistics per run, from the end of training, and loads it for every model.
    ``record_video`` and ``push_to_hub`` ignore the ``env_kwargs`` of the hyperparameters, and ``enjoy`` sums shaped
    rewards.
    """
    played = PlayedModels()
    for function, replacement in ((get_model_path, played.get_model_path), (create_test_env, played.create_test_env)):
        replace_in_rl_zoo(function, functools.wraps(function)(functools.partial(replacement)))


def statistics_or_warning(model_path: str, is_normalized: bool) -> Path | None:
    """The statistics saved with the model, if there are any. They are expected if the run ``is_normalized``."""
    if not is_normalized and not statistics_path(model_path).is_file():
        return None
    try:
        return matching_statistics(model_path)
    except (FileNotFoundError, ValueError) as error:
        warnings.warn(
            f"{error} RL Zoo uses those from the end of training, so the score may differ from the recorded one.",
            stacklevel=2,
        )
        return None


class _Model(NamedTuple):
    path: str
    is_final: bool
    is_ours: bool


class PlayedModels:
    """
    Passes on which model a command asked for: RL Zoo's commands ask ``get_model_path`` for a model, then tell
    ``create_test_env`` only the folder with the statistics of the final one.
    """

    def __init__(self) -> None:
        #: The last model asked for, by the folder that create_test_env gets
        self._by_folder: dict[str, _Model] = {}

    def get_model_path(self, *args: Any, **kwargs: Any) -> tuple[str, str, str]:
        asked = inspect.signature(get_model_path).bind(*args, **kwargs).arguments
        env_name, is_ours = asked["env_name"], asked["algo"] in ALGORITHMS
        try:
            name_prefix, model_path, log_path = get_model_path(*args, **kwargs)
        except (AssertionError, ValueError) as error:
            last = _last_model(asked)
            if last is None and not is_ours:
                raise
            if last is None:
                raise UsageError(f"{error}.\n{_playable_models(asked)}") from None
            say(f"The training did not end, so there is no final model: playing {last}")
            name_prefix, model_path, log_path = f"last-model-{asked['algo']}-{env_name}", str(last), str(last.parent)
        is_final = os.path.basename(model_path) == f"{env_name}.zip"
        folder = os.path.abspath(os.path.join(log_path, env_name))
        self._by_folder[folder] = _Model(model_path, is_final, is_ours)
        return name_prefix, model_path, log_path

    def create_test_env(self, *args: Any, **kwargs: Any) -> VecEnv:
        call = inspect.signature(create_test_env).bind(*args, **kwargs)
        given = call.arguments
        hyperparams, stats_path = given.get("hyperparams") or {}, given.get("stats_path")
        model = None if stats_path is None else self._by_folder.get(os.path.abspath(stats_path))
        if model is not None and model.is_ours:
            given["env_kwargs"] = {**(hyperparams.get("env_kwargs") or {}), **(given.get("env_kwargs") or {})}
        statistics = None
        if model is not None and not model.is_final and hyperparams.get("normalize"):
            statistics = statistics_or_warning(model.path, is_normalized=True)
        env = _create_with_statistics(call, statistics)
        if env.has_attr("set_shaping"):
            env.env_method("set_shaping", False)
        return env


def _create_with_statistics(call: inspect.BoundArguments, statistics: Path | None) -> VecEnv:
    if statistics is None:
        return create_test_env(*call.args, **call.kwargs)
    say(f"Statistics saved with the model: {statistics}")
    with tempfile.TemporaryDirectory() as folder:
        # The only name that RL Zoo looks for
        shutil.copy(statistics, Path(folder, "vecnormalize.pkl"))
        call.arguments["stats_path"] = folder
        return create_test_env(*call.args, **call.kwargs)


def _last_model(asked: dict[str, Any]) -> Path | None:
    """What to play when the final model was asked for and there is none, because the training was killed."""
    run = _run_folder(asked)
    if run is None or any(asked.get(option) for option in ("load_best", "load_checkpoint", "load_last_checkpoint")):
        return None
    last = Checkpoint(run, LAST).model
    return last if last.is_file() else None


def _run_folder(asked: dict[str, Any]) -> Path | None:
    above, env_name = os.path.join(asked["folder"], asked["algo"]), asked["env_name"]
    run_id = asked["exp_id"] or get_latest_run_id(above, env_name)
    return Path(above, f"{env_name}_{run_id}") if run_id > 0 else None


def _playable_models(asked: dict[str, Any]) -> str:
    """Which models the run has, and how to load them."""
    above, env_name, run = os.path.join(asked["folder"], asked["algo"]), asked["env_name"], _run_folder(asked)
    if run is None:
        return f"{above} has no run of {env_name}: train one, or choose the folder with -f."
    named = {env_name: "final", LAST: "last"}  # the last one is played if there is no final one
    found = next((which for name, which in named.items() if (run / f"{name}.zip").is_file()), None)
    options = [] if found is None else [f"the {found} model (no option)"]
    for checkpoint in find_checkpoints(run):
        if checkpoint.kind == "best":
            options.append("--load-best")
        elif checkpoint.kind == "step":
            options.append(f"--load-checkpoint {checkpoint.step}")
    if not options:
        resumable = f" To continue its training: sb3-ext resume {run}" if (run / RESUME_FILE).is_file() else ""
        return f"{run} has no model to play: choose another run with --exp-id.{resumable}"
    return f"{run} has: {', '.join(options)}."
