"""How many threads torch gets: one is faster for small networks, all cores for convolutions."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

__all__ = ["choose_threads"]

#: More threads must be this much faster: they keep the environments, the critic's process and the evaluation's from the
#: cores, and measurements are noisy.
_WORTH_IT = 1.3
#: Short ones are the noisy ones
_SECONDS = 0.1


def choose_threads(model: OnPolicyAlgorithm) -> int:
    """
    Measure a gradient of the model's policy, with one thread and with all.

    :param model: an algorithm that is set up; it is left as it was
    :return: the number of threads that is faster
    """
    most = th.get_num_threads()
    if most == 1 or model.device.type != "cpu":
        return most
    gradient = _a_gradient(model)
    seconds: dict[int, list[float]] = {1: [], most: []}
    start = time.perf_counter()
    while not seconds[most] or time.perf_counter() - start < _SECONDS:
        for threads, taken in seconds.items():  # in turns, since the machine's own speed moves
            th.set_num_threads(threads)
            taken.append(_fastest(gradient))
    th.set_num_threads(most)
    model.policy.optimizer.zero_grad()
    return most if min(seconds[1]) > _WORTH_IT * min(seconds[most]) else 1


def _a_gradient(model: OnPolicyAlgorithm) -> Callable[[], None]:
    n = min(int(getattr(model, "batch_size", None) or model.n_steps * model.n_envs), 256)
    observations = _zeros(model.observation_space, n)
    actions = _zeros(model.action_space, n)

    def gradient() -> None:
        values, log_prob, _ = model.policy.evaluate_actions(observations, actions)
        (values.sum() + log_prob.sum()).backward()

    return gradient


def _zeros(space: spaces.Space, n: int) -> Any:
    if isinstance(space, spaces.Dict):
        return {key: _zeros(part, n) for key, part in space.spaces.items()}
    return th.from_numpy(np.zeros((n, *(space.shape or ())), space.dtype))


def _fastest(call: Callable[[], None], repeats: int = 2) -> float:
    call()
    seconds = []
    for _ in range(repeats):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return min(seconds)
