"""Measures how fast a model trains, and where the time goes."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.logger import configure
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv

__all__ = ["Speed", "measure"]


class Speed(NamedTuple):
    """Seconds per step of one environment."""

    env: float
    inference: float
    update: float

    @property
    def steps_per_second(self) -> float:
        return 1 / sum(self)


def measure(model: OnPolicyAlgorithm, seconds: float) -> Speed:
    """
    :param model: trains for about this long, after a first rollout and update that don't count
    """
    model.set_logger(configure(format_strings=[]))
    total, callback = model._setup_learn(int(1e9), CallbackList([]), tb_log_name="bench")
    env = model.env
    assert env is not None
    with _timed_steps(env) as step_seconds:
        _train_once(model, callback, total)  # warms up
        step_seconds.clear()
        n_steps, collecting, updating = 0, 0.0, 0.0
        while collecting + updating < seconds:
            collect, update = _train_once(model, callback, total)
            n_steps += model.n_steps * model.n_envs
            collecting += collect
            updating += update
    in_env = sum(step_seconds)
    return Speed(in_env / n_steps, (collecting - in_env) / n_steps, updating / n_steps)


def _train_once(model: OnPolicyAlgorithm, callback: Any, total: int) -> tuple[float, float]:
    """One rollout and one update, in seconds."""
    assert model.env is not None
    start = time.perf_counter()
    model.collect_rollouts(model.env, callback, model.rollout_buffer, n_rollout_steps=model.n_steps)
    model._update_current_progress_remaining(model.num_timesteps, total)
    middle = time.perf_counter()
    model.train()
    return middle - start, time.perf_counter() - middle


@contextmanager
def _timed_steps(env: VecEnv) -> Iterator[list[float]]:
    step_seconds: list[float] = []
    stock_step = env.step

    def timed_step(actions: Any) -> Any:
        start = time.perf_counter()
        result = stock_step(actions)
        step_seconds.append(time.perf_counter() - start)
        return result

    env.step = timed_step  # type: ignore[method-assign]
    try:
        yield step_seconds
    finally:
        env.step = stock_step  # type: ignore[method-assign]
