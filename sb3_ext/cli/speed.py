"""Measures how fast a training is, and what its time goes into."""

from __future__ import annotations

import argparse
import contextlib
import io
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import gymnasium as gym
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import configure
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.common.names import check_choice, nearest

__all__ = ["Speed", "make_model", "measure"]


@dataclass(frozen=True)
class Speed:
    """
    Seconds for each step of one environment.

    :param env: in the environments
    :param inference: choosing actions and keeping the rollout
    :param update: learning from it
    """

    env: float
    inference: float
    update: float

    @property
    def steps_per_second(self) -> float:
        """Of the whole training."""
        return 1 / (self.env + self.inference + self.update)


class _Nothing(BaseCallback):
    def _on_step(self) -> bool:
        return True


@contextlib.contextmanager
def make_model(
    algo: str, env_id: str, hyperparams: dict[str, Any], conf: str | None = None, seed: int = 0
) -> Iterator[OnPolicyAlgorithm]:
    """
    A model as ``rl_zoo3.train`` makes it, without its files.

    :param algo: name of the algorithm in RL Zoo
    :param env_id: environment id
    :param hyperparams: what to change in the hyperparameter file's section
    :param conf: hyperparameter file; the algorithm's own by default
    :param seed: seed of the training
    """
    import rl_zoo3.train  # noqa: F401  lets plugins put their algorithms and ExperimentManager in place
    from rl_zoo3 import ALGOS, exp_manager

    if env_id not in gym.registry:
        raise ValueError(f"There is no environment {env_id!r}: {nearest(env_id, list(gym.registry))}")
    on_policy = [name for name, algorithm in ALGOS.items() if issubclass(algorithm, OnPolicyAlgorithm)]
    check_choice("--algo", algo, on_policy)
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        manager = exp_manager.ExperimentManager(
            argparse.Namespace(),
            algo,
            env_id,
            folder,
            eval_freq=-1,
            hyperparams=hyperparams,
            seed=seed,
            verbose=0,
            config=conf,
        )
        results = manager.setup_experiment()
        assert results is not None
        model = results[0]
        try:
            yield model  # type: ignore[misc]
        finally:
            assert model.env is not None
            model.env.close()


def measure(model: OnPolicyAlgorithm, seconds: float) -> Speed:
    """
    Train for a while, and take the time.

    :param model: what :func:`make_model` gave
    :param seconds: for about how long, after a first rollout and update that don't count
    """
    model.set_logger(configure(format_strings=[]))
    total, callback = model._setup_learn(int(1e9), _Nothing(), tb_log_name="bench")
    env = model.env
    assert env is not None
    env_seconds = 0.0
    stock_step = env.step

    def timed_step(actions: Any) -> Any:
        nonlocal env_seconds
        start = time.perf_counter()
        result = stock_step(actions)
        env_seconds += time.perf_counter() - start
        return result

    env.step = timed_step  # type: ignore[method-assign]
    n_steps, collecting, updating = 0, 0.0, 0.0
    for round_number in range(10**9):
        if round_number == 1:  # the first one warms up
            n_steps, collecting, updating, env_seconds = 0, 0.0, 0.0, 0.0
        start = time.perf_counter()
        model.collect_rollouts(env, callback, model.rollout_buffer, n_rollout_steps=model.n_steps)
        model._update_current_progress_remaining(model.num_timesteps, total)
        middle = time.perf_counter()
        model.train()
        end = time.perf_counter()
        n_steps += model.n_steps * model.n_envs
        collecting += middle - start
        updating += end - middle
        if round_number >= 1 and collecting + updating >= seconds:
            break
    env.step = stock_step  # type: ignore[method-assign]
    return Speed(env_seconds / n_steps, (collecting - env_seconds) / n_steps, updating / n_steps)
