"""``n_envs: auto`` and ``n_steps: auto``: measured once for a study."""

import math
import time
from collections import Counter
from collections.abc import Mapping
from typing import Any

import numpy as np
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.common.arguments import to_integer
from sb3_ext.common.usage_error import UsageError
from sb3_ext.tune.space import fitted
from sb3_ext.zoo.config.schema import section_parameters
from sb3_ext.zoo.models import make_model, measure_training
from sb3_ext.zoo.registry import algorithm_class

__all__ = ["AUTO", "mean_reward_interval", "resolve_auto"]

AUTO = "auto"
#: Numbers of environments to try, and how long: each at least 1 s, all together not much more than 15 s
_N_ENVS = (1, 2, 4, 8, 16, 32, 64)
_SECONDS_EACH, _SECONDS = 1.0, 15.0
#: Differences below 10 % are noise: fewer environments then
_AS_FAST = 0.9
#: Steps with random actions, and the smallest and largest ``n_steps``
_RANDOM_STEPS, _SMALLEST, _LARGEST = 4096, 16, 4096


def resolve_auto(
    section: Mapping[str, Any], algo: str, env_id: str, seed: int, before: Mapping[str, Any] | None = None
) -> tuple[dict[str, Any], list[str]]:
    """
    :param before: the section before ``auto`` was set, whose ``n_envs * n_steps`` stays
    :return: the section with numbers, and where they come from
    :raises UsageError: when the algorithm has no rollouts
    """
    new = dict(section)
    said: list[str] = []
    wanted = [key for key in ("n_steps", "n_envs") if new.get(key) == AUTO]
    if not wanted:
        return new, said
    algorithm = algorithm_class(algo)
    if not issubclass(algorithm, OnPolicyAlgorithm):
        raise UsageError(f"{wanted[0]}: auto is for algorithms with rollouts, and {algo} has none: write a number.")
    given = before or {}
    n_envs, default = given.get("n_envs", 1), section_parameters(algorithm)["n_steps"].default
    n_envs = 1 if n_envs == AUTO else to_integer(n_envs)
    if "n_steps" in wanted:
        interval, what = mean_reward_interval(new, algo, env_id, seed)
        exponent = round(math.log2(max(interval, 1)))
        new["n_steps"] = min(max(2**exponent, _SMALLEST), _LARGEST)
        said.append(f"n_steps: auto is {new['n_steps']}: {what} {interval:.0f} steps with random actions.")
    if "n_envs" in wanted:
        n_steps = to_integer(new.get("n_steps", default))
        new["n_envs"], measured_steps, text = _fastest_n_envs(new, algo, env_id, n_envs, n_envs * n_steps)
        if "n_steps" not in wanted:
            new["n_steps"] = measured_steps
            text += f"; n_steps is {measured_steps}"
        said.append(f"{text}.")
    return fitted(new, section, algo), said


def _fastest_n_envs(section: Mapping[str, Any], algo: str, env_id: str, own: int, rollout: int) -> tuple[int, int, str]:
    """:param own: the section's number, which is tried first: it stays if there is no time for others"""
    start = time.perf_counter()
    found: list[tuple[int, int, float]] = []
    for n_envs in sorted({own, *_N_ENVS}, key=lambda number: (abs(math.log2(number / own)), -number)):
        is_late = time.perf_counter() - start > _SECONDS - _SECONDS_EACH
        if found and (rollout // n_envs < 2 or rollout % n_envs or is_late):
            continue
        fixed = fitted({**section, "n_envs": n_envs, "n_steps": max(2, rollout // n_envs)}, section, algo)
        n_steps, speed = measure_training(algo, env_id, {}, n_envs, rollout, _SECONDS_EACH, fixed)
        found.append((n_envs, n_steps, speed.steps_per_second))
    found.sort()
    best = max(speed for _, _, speed in found)
    n_envs, n_steps, _ = next(result for result in found if result[2] >= _AS_FAST * best)
    speeds = ", ".join(f"{n}: {speed:,.0f}" for n, _, speed in found)
    return n_envs, n_steps, f"n_envs: auto is {n_envs} (steps per second with {speeds})"


def mean_reward_interval(section: Mapping[str, Any], algo: str, env_id: str, seed: int) -> tuple[float, str]:
    """
    The mean number of steps between rewards, with random actions. A reward is one that is not the usual one, such as 0
    or CartPole's 1; the end of an episode is one too. Where almost each step has a reward of its own, it is the mean
    length of an episode.

    :return: and what it is
    """
    fixed = fitted({**section, "n_envs": 1, "n_steps": _SMALLEST, "normalize": False}, section, algo)
    with make_model(algo, env_id, {}, seed=seed, section=fixed) as model:
        env = model.env
        assert env is not None
        env.action_space.seed(seed)
        env.reset()
        rewards, ends = np.zeros(_RANDOM_STEPS), np.zeros(_RANDOM_STEPS, dtype=bool)
        for step in range(_RANDOM_STEPS):
            _, reward, done, _ = env.step(np.array([env.action_space.sample()]))
            rewards[step], ends[step] = reward[0], done[0]
    usual = Counter(rewards.tolist()).most_common(1)[0][0]
    counts = (rewards != usual) | ends
    if counts.mean() > 0.5:
        return _RANDOM_STEPS / max(ends.sum(), 1), "almost each step has a reward of its own, and an episode has"
    return _RANDOM_STEPS / max(counts.sum(), 1), "between two rewards are"
