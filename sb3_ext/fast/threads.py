"""How many threads torch gets: one is faster for small networks, all cores for convolutions."""

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.common.algorithm import ExtAlgorithm
from sb3_ext.common.repeated_comparison import wins_clearly
from sb3_ext.fast.image_policy import FastImagePolicy

__all__ = ["choose_threads"]

#: More threads must be this much faster: they take the cores from environments, evaluations and the critic's process
_WORTH_IT = 1.3
#: Most samples in the measured gradient, the numbers in them, and how many it takes for threads to share the work; and
#: most images of the fast path, which it divides among threads as it does a whole minibatch
_BATCH, _NUMBERS, _LEAST, _IMAGES = 256, 2**20, 32, 128


def choose_threads(model: OnPolicyAlgorithm) -> int:
    """
    Measure a gradient of the model's policy with one thread and with all; returns the faster number. The model is left
    as it was.
    """
    most = th.get_num_threads()
    if most == 1 or model.device.type != "cpu":
        return most
    model.policy.set_training_mode(False)  # layers with statistics of their data must not count these observations
    fast = model.fast_policy if isinstance(model, ExtAlgorithm) else None
    gradient = _divided_gradient(model, fast) if isinstance(fast, FastImagePolicy) else _gradient(model)
    _times(gradient, most)  # starts the threads

    def compare() -> bool:
        one, several = _times(gradient, 1), _times(gradient, most)
        return all(a > _WORTH_IT * b for a, b in zip(one, several, strict=True))

    all_are_faster = wins_clearly(compare)
    th.set_num_threads(most)
    model.policy.optimizer.zero_grad()
    return most if all_are_faster else 1


def _batch_size(model: OnPolicyAlgorithm) -> int:
    return int(getattr(model, "batch_size", None) or model.n_steps * model.n_envs)


def _divided_gradient(model: OnPolicyAlgorithm, fast: FastImagePolicy) -> Callable[[], object]:
    return fast.sample_gradient(min(_batch_size(model), _IMAGES))


def _gradient(model: OnPolicyAlgorithm) -> Callable[[], None]:
    n = min(_batch_size(model), max(_NUMBERS // spaces.flatdim(model.observation_space), _LEAST), _BATCH)
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


def _times(call: Callable[[], object], threads: int) -> tuple[float, float]:
    """
    Seconds that pass, and seconds that this thread works. On a busy machine, waiting for others can look fast, because
    the system favours those who waited. Only where there is work to share does this thread work less.
    """
    th.set_num_threads(threads)
    wall, work = time.perf_counter(), time.thread_time()
    call()
    return time.perf_counter() - wall, time.thread_time() - work
