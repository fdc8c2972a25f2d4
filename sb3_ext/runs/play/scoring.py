"""Plays episodes with an agent and returns their scores: the environment's raw rewards, as Monitor reports them."""

import time
import warnings
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.type_aliases import PolicyPredictor
from stable_baselines3.common.vec_env import VecEnv, VecMonitor, is_vecenv_wrapped

from sb3_ext.common.algorithm import ExtAlgorithm

__all__ = ["Scores", "play"]

_NO_MONITOR = (
    "The evaluation environments are not in a Monitor: scores are the rewards after all wrappers, shaped or normalised,"
    " and not the environment's own. Wrap each environment in a Monitor first."
)


@dataclass(frozen=True)
class Scores:
    """
    Scores of episodes, ordered by their end.

    :param rewards: sum of raw rewards of each episode
    :param lengths: steps of each episode
    :param successes: ``is_success`` of the episodes whose info has it
    :param seconds: time it took
    """

    rewards: tuple[float, ...]
    lengths: tuple[int, ...]
    successes: tuple[bool, ...] = ()
    seconds: float = 0.0

    @property
    def mean(self) -> float:
        return float(np.mean(self.rewards))

    @property
    def std(self) -> float:
        return float(np.std(self.rewards))

    @property
    def mean_length(self) -> float:
        return float(np.mean(self.lengths))

    @property
    def success_rate(self) -> float | None:
        """``None`` when no episode reports success."""
        return float(np.mean(self.successes)) if self.successes else None


def play(
    agent: PolicyPredictor,
    env: VecEnv,
    *,
    episodes: int | None = None,
    steps: int | None = None,
    deterministic: bool = True,
    use_masks: bool | None = None,
    render: bool = False,
    warn: bool = True,
) -> Scores:
    """
    Play whole episodes, without a bias towards short ones: which episodes count is decided before they start.

    With ``episodes``, each environment plays its share of them. With ``steps``, each environment plays its share of the
    steps, and finishes the episode it is in, which counts. (Leaving it out would be wrong: long episodes are cut off
    more often. With few episodes per environment, the mean leans slightly towards the last, longer one.)

    :param agent: a model or a policy, recurrent ones included
    :param env: environments; they are reset first
    :param episodes: how many episodes to play
    :param steps: how many steps to play, over all environments; give either ``episodes`` or ``steps``
    :param deterministic: take the most likely action instead of sampling as in training
    :param use_masks: give the agent action masks; by default if it is a ``MaskablePPO`` and the environments have them
    :param render: show the environments
    :param warn: warn if the environments are not in a Monitor
    """
    tally = _Tally(env.num_envs, episodes, steps)
    if not is_vecenv_wrapped(env, VecMonitor) and not env.env_is_wrapped(Monitor)[0]:
        if warn:
            warnings.warn(_NO_MONITOR, stacklevel=2)
        env = VecMonitor(env)
    if use_masks is None:
        use_masks = isinstance(agent, MaskablePPO) and is_masking_supported(env)
    start = time.perf_counter()
    observations = _reset(env)
    states: Any = None
    starts = np.ones(env.num_envs, dtype=bool)
    with agent.predicting_fast() if isinstance(agent, ExtAlgorithm) else nullcontext():
        while tally.goes_on:
            masks = {"action_masks": get_action_masks(env)} if use_masks else {}
            actions, states = agent.predict(observations, states, starts, deterministic, **masks)
            observations, _, starts, infos = env.step(actions)
            tally.add_step(starts, infos)
            if render:
                env.render()
    return tally.scores(time.perf_counter() - start)


class _Tally:
    """Which environments are in an episode that counts, and the scores of those that have ended."""

    def __init__(self, n_envs: int, episodes: int | None, steps: int | None) -> None:
        given = episodes if steps is None else steps
        if (episodes is None) == (steps is None) or given is None or given < 1:
            raise ValueError(f"episodes={episodes}, steps={steps}: give one of them, at least 1.")
        # Shares of the environments: of the episodes as in SB3's evaluate_policy, of the steps rounded up
        self._episodes = None if episodes is None else [(episodes + index) // n_envs for index in range(n_envs)]
        self._steps = 0 if steps is None else -(-steps // n_envs)
        self._finished: list[tuple[dict[str, Any], bool | None]] = []
        self._counting = [share > 0 for share in self._episodes or [self._steps] * n_envs]

    @property
    def goes_on(self) -> bool:
        return any(self._counting)

    def add_step(self, dones: np.ndarray, infos: list[dict[str, Any]]) -> None:
        self._steps -= 1
        for index in dones.nonzero()[0].tolist():
            info = infos[index]
            if "episode" not in info:
                continue  # Atari wrappers end an episode when a life is lost; Monitor knows the real end
            if self._counting[index]:
                self._finished.append((info["episode"], info.get("is_success")))
            if self._episodes is not None:
                self._episodes[index] -= 1
            left = self._steps if self._episodes is None else self._episodes[index]
            self._counting[index] &= left > 0

    def scores(self, seconds: float) -> Scores:
        return Scores(
            tuple(float(episode["r"]) for episode, _ in self._finished),
            tuple(int(episode["l"]) for episode, _ in self._finished),
            tuple(bool(success) for _, success in self._finished if success is not None),
            seconds,
        )


def _reset(env: VecEnv) -> Any:
    """SB3's Atari wrapper would continue a game that another agent started, after a lost life."""
    if env.has_attr("was_real_done"):
        env.env_method("set_wrapper_attr", "was_real_done", True)
    return env.reset()
