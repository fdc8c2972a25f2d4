"""Measures how fast a model trains, and where the time goes."""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

from stable_baselines3.common.callbacks import CallbackList
from stable_baselines3.common.logger import configure
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

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
    """Train for about ``seconds``, after a first rollout and update that don't count."""
    model.set_logger(configure(format_strings=[]))
    total, callback = model._setup_learn(int(1e9), CallbackList([]), tb_log_name="bench")
    env = model.env
    assert env is not None
    stepping: list[float] = []
    collecting: list[float] = []
    updating: list[float] = []
    stock_step = env.step
    env.step = _timed(stock_step, stepping)  # type: ignore[method-assign]
    collect, update = _timed(model.collect_rollouts, collecting), _timed(model.train, updating)
    is_warm = False
    try:
        while not is_warm or sum(collecting) + sum(updating) < seconds:
            collect(env, callback, model.rollout_buffer, n_rollout_steps=model.n_steps)
            model._update_current_progress_remaining(model.num_timesteps, total)
            update()
            if not is_warm:
                is_warm = True
                for times in (stepping, collecting, updating):
                    times.clear()
    finally:
        env.step = stock_step  # type: ignore[method-assign]
    n_steps = len(updating) * model.n_steps * model.n_envs
    in_env = sum(stepping)
    return Speed(in_env / n_steps, (sum(collecting) - in_env) / n_steps, sum(updating) / n_steps)


def _timed(function: Callable[..., Any], times: list[float]) -> Callable[..., Any]:
    def timed(*args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        result = function(*args, **kwargs)
        times.append(time.perf_counter() - start)
        return result

    return timed
