"""What all our algorithms have in common, whatever they do with a rollout."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any, Self

from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.arguments import read_whole
from sb3_ext.common.checked_load import CheckedLoad
from sb3_ext.common.env_checks import warn_double_frame_skip, warn_if_copies
from sb3_ext.common.import_path import import_class
from sb3_ext.common.names import check_choice
from sb3_ext.common.policies import resolve_policy_kwargs
from sb3_ext.common.schedules import ScheduledAlgorithm

__all__ = ["ExtAlgorithm", "read_whole_numbers"]

_WHOLE_NUMBERS = ("n_steps", "batch_size", "n_epochs", "max_episode_steps")

#: Policies that only one kind of algorithm can use
_SPECIAL_POLICIES: tuple[type[BasePolicy], ...] = (RecurrentActorCriticPolicy, MaskableActorCriticPolicy)


def read_whole_numbers(values: MutableMapping[str, Any]) -> None:
    """
    :param values: parameters by name; those that count something become whole numbers
    :raises ValueError: when one of them is not a whole number
    """
    for name in _WHOLE_NUMBERS:
        if values.get(name) is not None:
            values[name] = read_whole(name, values[name])


class ExtAlgorithm(ScheduledAlgorithm, CheckedLoad, OnPolicyAlgorithm):
    """Mixin, before the SB3 class in the bases: schedules for its numbers, policies from names, checked keywords."""

    _compared_envs = False

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        read_whole_numbers(kwargs)  # before SB3's constructors calculate with them
        super().__init__(*args, **kwargs)

    def _setup_model(self) -> None:
        read_whole_numbers(self.__dict__)  # also what `load` was given
        warn_double_frame_skip(self.env)
        self._check_policy_class()
        self.policy_kwargs = resolve_policy_kwargs(self.policy_class, self.policy_kwargs)
        super()._setup_model()

    def _check_policy_class(self) -> None:
        """Also an agent that is loaded brings its policy's class with it."""
        usual = next(iter(self.policy_aliases.values()))
        for special in _SPECIAL_POLICIES:
            if issubclass(self.policy_class, special) != issubclass(usual, special):
                raise ValueError(
                    f"{type(self).__name__} can't use the policy {self.policy_class.__module__}."
                    f"{self.policy_class.__name__}: policies with a memory or for action masks are for algorithms of "
                    "their kind alone."
                )

    def _get_policy_from_name(self, policy_name: str) -> type[BasePolicy]:
        if "." in policy_name:
            return import_class("policy", policy_name, BasePolicy)
        check_choice("policy", policy_name, self.policy_aliases)
        return super()._get_policy_from_name(policy_name)

    def _maybe_recommend_cpu(self, mlp_class_name: str = "MlpPolicy") -> None:
        super()._maybe_recommend_cpu(mlp_class_name)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, *args: Any, **kwargs: Any
    ) -> bool:
        goes_on = super().collect_rollouts(env, callback, rollout_buffer, *args, **kwargs)
        if goes_on:
            self._warn_if_envs_are_copies(rollout_buffer)
        return goes_on

    def _warn_if_envs_are_copies(self, buffer: RolloutBuffer) -> None:
        """Once, of the first rollout, while its arrays are ordered by step and environment."""
        if self.n_envs > 1 and not self._compared_envs and not isinstance(buffer.observations, dict):
            self._compared_envs = True
            warn_if_copies(buffer.observations, buffer.actions, buffer.episode_starts)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_compared_envs"]

    def learn(self, total_timesteps: int, *args: Any, **kwargs: Any) -> Self:
        """
        As SB3's, with the class's name for the logs.

        :param total_timesteps: how many steps to train for
        :param args: what SB3's ``learn`` takes: callback, log_interval, tb_log_name, …
        :param kwargs: the same, by name
        """
        if len(args) < 3:
            kwargs.setdefault("tb_log_name", type(self).__name__)
        return super().learn(total_timesteps, *args, **kwargs)
