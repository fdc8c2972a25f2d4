"""Plays the final model of a run; shared by the other scripts in this folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
import numpy as np
import rl_zoo3.import_envs  # noqa: F401  registers RL Zoo's environments
from huggingface_sb3 import EnvironmentName
from rl_zoo3 import ALGOS, create_test_env, get_saved_hyperparams
from rl_zoo3.exp_manager import ExperimentManager
from rl_zoo3.utils import get_model_path
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy as evaluate_masked_policy
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.evaluation import evaluate_policy
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv


@dataclass(frozen=True)
class Evaluation:
    """
    :param mean: mean raw reward of the episodes
    :param std: its standard deviation over the episodes
    :param deterministic: whether the agent took its most likely action
    :param trained_steps: how many steps the agent was trained for
    """

    mean: float
    std: float
    deterministic: bool
    trained_steps: int


def evaluate_latest_run(
    algo: str,
    env_id: str,
    folder: str,
    n_episodes: int,
    *,
    n_envs: int = 1,
    seed: int = 1000,
    deterministic: bool | None = None,
) -> Evaluation:
    """
    Play the final model of the latest run, with the wrappers and the normalisation statistics of its training.

    :param algo: name of the algorithm in RL Zoo
    :param env_id: environment id
    :param folder: log folder of the training (RL Zoo's ``-f``)
    :param n_episodes: episodes to play
    :param n_envs: environments to play them in, in this process
    :param seed: seed of the environments and of sampled actions
    :param deterministic: ``None`` decides as RL Zoo does: stochastic on Atari, whose scores are reported that way
    """
    if deterministic is None:
        deterministic = not ExperimentManager.is_atari(env_id)
    model, env = open_run(algo, env_id, folder, n_envs=n_envs, seed=seed)
    set_random_seed(seed)  # of sampled actions
    # The environments are inside a Monitor: these are raw rewards, whatever wrappers change them for training
    play = evaluate_masked_policy if isinstance(model, MaskablePPO) else evaluate_policy
    rewards, _ = play(model, env, n_episodes, deterministic=deterministic, return_episode_rewards=True)
    env.close()
    return Evaluation(float(np.mean(rewards)), float(np.std(rewards)), deterministic, model.num_timesteps)


def open_run(
    algo: str,
    env_id: str,
    folder: str,
    *,
    run_id: int = 0,
    n_envs: int = 1,
    seed: int = 1000,
    change: Callable[[dict[str, Any]], None] | None = None,
) -> tuple[BaseAlgorithm, VecEnv]:
    """
    Load the final model of a run, and make environments with the wrappers and statistics of its training.

    :param algo: name of the algorithm in RL Zoo
    :param env_id: environment id
    :param folder: log folder of the training (RL Zoo's ``-f``)
    :param run_id: number of the run, 0 for the latest
    :param n_envs: environments, in this process
    :param seed: of the environments
    :param change: may change the hyperparameters of the run before environments are made with them
    """
    env_name = EnvironmentName(env_id)
    _, model_path, log_path = get_model_path(run_id, folder, algo, env_name)
    hyperparams, stats_path = get_saved_hyperparams(f"{log_path}/{env_name}", test_mode=True)
    env_kwargs = hyperparams.pop("env_kwargs", {})
    if change is not None:
        change(hyperparams)
    env = create_test_env(
        env_id,
        n_envs=n_envs,
        stats_path=stats_path,
        seed=seed,
        should_render=False,
        hyperparams=hyperparams,
        env_kwargs=env_kwargs,
        vec_env_cls=DummyVecEnv,
    )
    return ALGOS[algo].load(model_path, device="cpu"), env


def reward_threshold(env_id: str) -> float | None:
    """From which mean reward on Gymnasium calls the environment solved, if it says so."""
    return gym.spec(env_id).reward_threshold
