"""Finds a run folder for RL Zoo's ``enjoy``, and loads its agent with its environments as ``enjoy`` does."""

import importlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from sb3_ext import _autoload
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.choose import ChosenModel
from sb3_ext.runs.record import RunRecord
from sb3_ext.runs.report.commands import log_folder_of

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm
    from stable_baselines3.common.vec_env import VecEnv

__all__ = ["LoadedRun", "check_is_zoo_run", "import_rl_zoo", "load_as_trained", "load_run", "placed"]

_NOT_FOR_PLAYING: dict[str, Any] = {"learning_rate": 0.0, "lr_schedule": float, "clip_range": float, "buffer_size": 1}


class LoadedRun(NamedTuple):
    """``deterministic``: whether ``enjoy`` takes the most likely actions, unless told otherwise."""

    model: "BaseAlgorithm"
    env: "VecEnv"
    deterministic: bool


def check_is_zoo_run(run: RunRecord) -> None:
    """:raises UsageError: when the run folder does not say how to make its environments"""
    if not run.algo or not run.args.get("env") or run.params_folder is None:
        raise UsageError(
            f"{run.folder} was not trained by RL Zoo: without its args.yml, nobody knows how to make the environments."
        )


@contextmanager
def placed(run: RunRecord) -> Iterator[dict[str, str]]:
    """Values of ``algo``, ``env``, ``folder`` and ``exp_id`` with which ``enjoy`` finds a run, wherever it is."""
    check_is_zoo_run(run)
    assert run.algo is not None and run.params_folder is not None
    names = {"algo": run.algo, "env": str(run.args["env"])}
    folder = log_folder_of(run)
    if folder is not None:
        yield names | {"folder": str(folder), "exp_id": str(run.number)}
        return
    # A copy under another name: RL Zoo finds a link with the right one
    with tempfile.TemporaryDirectory() as temporary:
        link = Path(temporary, run.algo, f"{run.params_folder.name}_1")
        link.parent.mkdir()
        link.symlink_to(run.folder.resolve(), target_is_directory=True)
        yield names | {"folder": temporary, "exp_id": "1"}


def import_rl_zoo() -> Any:
    """RL Zoo's ``enjoy``, which also registers the environments; takes seconds at the first call."""
    _autoload.install()
    return importlib.import_module("rl_zoo3.enjoy")


def load_run(run: RunRecord, model: Mapping[str, Any], seed: int = 0, render_mode: str | None = None) -> LoadedRun:
    """:param model: which one, as keywords of RL Zoo's ``get_model_path``"""
    zoo = import_rl_zoo()
    with _env_of(run), placed(run) as at:
        for package in run.args.get("gym_packages") or ():
            importlib.import_module(package)
        env_name = zoo.EnvironmentName(at["env"])
        _, path, log_path = zoo.get_model_path(int(at["exp_id"]), at["folder"], at["algo"], env_name, **model)
        zoo.set_random_seed(seed)
        hyperparams, stats_path = zoo.get_saved_hyperparams(os.path.join(log_path, env_name), test_mode=True)
        env_kwargs = {**(hyperparams.pop("env_kwargs", None) or {}), **(run.args.get("env_kwargs") or {})}
        env = zoo.create_test_env(
            at["env"],
            stats_path=stats_path,
            seed=seed,
            should_render=False,
            hyperparams=hyperparams,
            env_kwargs=env_kwargs | ({} if render_mode is None else {"render_mode": render_mode}),
            vec_env_cls=zoo.ExperimentManager.default_vec_env_cls,
        )
        agent = zoo.ALGOS[at["algo"]].load(path, device="cpu", custom_objects=_NOT_FOR_PLAYING)
    is_shown_sampled = zoo.ExperimentManager.is_atari(at["env"]) or zoo.ExperimentManager.is_minigrid(at["env"])
    return LoadedRun(agent, env, not is_shown_sampled)


def load_as_trained(run: RunRecord, chosen: ChosenModel, seed: int = 0, render_mode: str | None = None) -> LoadedRun:
    """As :func:`load_run`, with rewards as the algorithm saw them: shaped and normalised, in the model's stage."""
    from sb3_ext.runs.agents.load import enter_stage
    from sb3_ext.runs.agents.statistics import load_statistics
    from sb3_ext.wrappers.training_link import link_to_training

    loaded = load_run(run, chosen.keywords, seed, render_mode)
    model, env = loaded.model, loaded.env
    with suppress(FileNotFoundError):  # not normalised, or RL Zoo's single file of statistics
        env = load_statistics(chosen.path, env, norm_reward=True)
    if env.has_attr("set_shaping"):
        env.env_method("set_shaping", True)
    link_to_training(env, getattr(model, "gamma", None))
    enter_stage(env, model)
    return loaded._replace(env=env)


@contextmanager
def _env_of(run: RunRecord) -> Iterator[None]:
    import gymnasium as gym

    try:
        yield
    except (gym.error.UnregisteredEnv, gym.error.DependencyNotInstalled, ModuleNotFoundError) as error:
        raise UsageError(f"{run.env_id} is not installed here: {error}") from error
