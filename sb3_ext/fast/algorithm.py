"""How an algorithm takes the fast path: when it applies, for which rollouts, and what it says about it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, Self

from gymnasium import spaces
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.policies import ActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.algorithm import ExtAlgorithm
from sb3_ext.common.arguments import read_flag
from sb3_ext.common.env_checks import env_diversity
from sb3_ext.fast.applies import find_fast_policy
from sb3_ext.fast.policy import FastPolicy
from sb3_ext.fast.rollouts import DeferringBuffer, DeferringRolloutBuffer, acting_with

__all__ = ["ALONE", "FastAlgorithm"]

#: Value of ``fast``: without other processes
ALONE = "alone"


class FastAlgorithm(ExtAlgorithm):
    """
    Mixin, first in the bases.

    :param fast: take the fast path where it applies; ``"alone"``: in this process only (PPOExt may update the critic in
        another one, where that is faster)
    """

    fast: bool | str
    _fast_policy: FastPolicy | None = None
    _told_why_not_fast = False

    def __init__(self, *args: Any, fast: bool | str = True, **kwargs: Any) -> None:
        if isinstance(fast, str) and fast != ALONE:
            raise ValueError(f"fast={fast!r} must be True or False (in YAML without quotes), or {ALONE!r}.")
        self.fast = fast if fast == ALONE else read_flag("fast", fast)
        super().__init__(*args, **kwargs)

    def _setup_model(self) -> None:
        given = self.rollout_buffer_class
        if given is None and not isinstance(self.observation_space, spaces.Dict):
            self.rollout_buffer_class = DeferringRolloutBuffer
        super()._setup_model()
        self.rollout_buffer_class = given  # what is saved with the model loads without us

    def _compare_envs(self, buffer: RolloutBuffer) -> None:
        if isinstance(buffer.observations, dict):
            return
        self._warn_if_envs_are_copies(buffer)
        diversity = env_diversity(buffer.observations)
        if diversity is not None:
            self.logger.record("rollout/env_diversity", diversity)

    @property
    def fast_policy(self) -> FastPolicy | None:
        """The policy on the fast path; ``None`` where that does not apply."""
        found = self._find_fast_policy()
        if isinstance(found, str):
            self._tell_why_not(found)
        return found if isinstance(found, FastPolicy) else None

    def _find_fast_policy(self) -> FastPolicy | str | None:
        """What there is; or why not, where that could be news."""
        if not self.fast:
            return None
        if self._fast_policy is None or not self._fast_policy.is_of(self.policy):
            self._fast_policy = None
            found = find_fast_policy(self)
            if isinstance(found, str):
                return found
            self._fast_policy = found(self.policy)
        return self._fast_policy

    def _tell_why_not(self, reason: str) -> None:
        if not self._told_why_not_fast and self.verbose >= 1:
            self._told_why_not_fast = True
            print(f"{type(self).__name__} takes the plain path, not the fast one, because {reason}.")

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, *args: Any, **kwargs: Any
    ) -> bool:
        fast_policy = self.fast_policy
        with ExitStack() as stack:
            if isinstance(rollout_buffer, DeferringBuffer):
                # A buffer that kept it would keep the algorithm alive
                rollout_buffer.on_complete = self._compare_envs if self.n_envs > 1 else None
                stack.callback(setattr, rollout_buffer, "on_complete", None)
                if fast_policy is not None:
                    stack.enter_context(
                        acting_with(self, fast_policy.act, rollout_buffer, fast_policy.evaluate_rollout)
                    )
            return super().collect_rollouts(env, callback, rollout_buffer, *args, **kwargs)

    def learn(self, total_timesteps: int, *args: Any, **kwargs: Any) -> Self:
        """
        As SB3's. Helper processes end with it.

        :param total_timesteps: how many steps to train for
        :param args: what SB3's ``learn`` takes: callback, log_interval, tb_log_name, …
        :param kwargs: the same, by name
        """
        try:
            return super().learn(total_timesteps, *args, **kwargs)
        finally:
            if self._fast_policy is not None:
                self._fast_policy.close()

    @contextmanager
    def predicting_fast(self) -> Iterator[None]:
        """For as long as the policy does not change, let ``predict`` take the fast path where it applies."""
        policy, found = self.policy, self._find_fast_policy()
        is_stock = type(policy)._predict is ActorCriticPolicy._predict and "_predict" not in vars(policy)
        if not isinstance(found, FastPolicy) or not is_stock:
            yield
            return
        # SB3 says at each step that it is not training, to every module: twice the time of all the rest
        policy.set_training_mode(False)
        shadows: dict[str, Any] = {"_predict": found.predict, "set_training_mode": lambda mode: None}
        vars(policy).update(shadows)
        try:
            yield
        finally:
            for name in shadows:
                del vars(policy)[name]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_fast_policy": None}

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_fast_policy", "_told_why_not_fast"]
