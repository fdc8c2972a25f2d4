"""How much a training got out of its steps, in numbers that compare runs."""

from __future__ import annotations

import contextlib
import math
from weakref import WeakKeyDictionary

from gymnasium.envs.registration import EnvSpec
from stable_baselines3.common.vec_env import SubprocVecEnv, VecEnv

__all__ = ["SampleEfficiency", "remember_spec", "reward_threshold", "spec_of"]

_SPECS: WeakKeyDictionary[VecEnv, EnvSpec] = WeakKeyDictionary()


class SampleEfficiency:
    """
    Best score, area under the curve of scores, and the steps that a threshold took. A score is the raw reward of the
    latest episodes, ``rollout/ep_rew_mean``.

    :param start: timesteps when the curve begins
    :param threshold: the score at which the task counts as solved, if it is known
    """

    def __init__(self, start: int = 0, threshold: float | None = None) -> None:
        self._start, self._threshold = start, threshold
        self._area = 0.0
        self._last_step, self._last_score = start, math.nan
        self._best = -math.inf
        self._reached_at: int | None = None

    def add(self, step: int, score: float) -> dict[str, float]:
        """
        :param step: timesteps, of this and of all later ones at least those of the last time
        :param score: the score then
        :return: the metrics
        """
        if math.isfinite(score):
            # What was before the first episode had ended is unknown: the first score holds from the start
            before = score if math.isnan(self._last_score) else self._last_score
            self._area += (step - self._last_step) * (before + score) / 2
            self._last_step, self._last_score = step, score
            self._best = max(self._best, score)
            if self._reached_at is None and self._threshold is not None and score >= self._threshold:
                self._reached_at = step
        return self._metrics()

    def _metrics(self) -> dict[str, float]:
        if math.isnan(self._last_score):
            return {}
        steps = self._last_step - self._start
        metrics = {
            "rollout/score_best": self._best,
            "rollout/score_auc": self._area / steps if steps > 0 else self._last_score,
        }
        if self._reached_at is not None:
            metrics["rollout/steps_to_threshold"] = self._reached_at
        return metrics


def remember_spec(env: VecEnv, spec: EnvSpec) -> None:
    """
    :param env: vectorised environments, which can't be asked when they are in other processes
    :param spec: what they were made from
    """
    _SPECS[env.unwrapped] = spec


def spec_of(env: VecEnv) -> EnvSpec | None:
    """
    :param env: vectorised environments
    :return: what the first of them was made from; ``None`` where it is not known
    """
    if isinstance(env.unwrapped, SubprocVecEnv):
        return _SPECS.get(env.unwrapped)  # one that can't be pickled would end the process that is asked for it
    with contextlib.suppress(AttributeError):
        return env.get_attr("spec", indices=0)[0]
    return None


def reward_threshold(env: VecEnv) -> float | None:
    """
    :param env: vectorised environments
    :return: the mean reward at which Gymnasium counts the first of them as solved; ``None`` where it is not known
    """
    threshold = getattr(spec_of(env), "reward_threshold", None)
    return None if threshold is None else float(threshold)
