"""What all our algorithms have in common, whatever they do with a rollout."""

import inspect
from collections.abc import MutableMapping
from contextlib import AbstractContextManager, nullcontext
from typing import Any, ClassVar, Self

import torch as th
from gymnasium import spaces
from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy, MaskableMultiInputActorCriticPolicy
from sb3_contrib.common.recurrent.policies import RecurrentActorCriticPolicy, RecurrentMultiInputActorCriticPolicy
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.policies import BasePolicy, MultiInputActorCriticPolicy
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.arguments import read_whole
from sb3_ext.common.env_checks import env_diversity, warn_double_frame_skip, warn_if_copies
from sb3_ext.common.fast_path import ALONE, FastPath
from sb3_ext.common.import_path import import_class
from sb3_ext.common.model_file import check_saved_by
from sb3_ext.common.names import check_choice, check_keywords
from sb3_ext.common.policies import resolve_policy_kwargs
from sb3_ext.common.schedules import ScheduleSet, parse_schedule

__all__ = ["ExtAlgorithm"]

_WHOLE_NUMBERS = ("n_steps", "batch_size", "n_epochs", "max_episode_steps")
#: Policies that need Dict observations
_POLICIES_FOR_DICTS = (
    MaskableMultiInputActorCriticPolicy,
    MultiInputActorCriticPolicy,
    RecurrentMultiInputActorCriticPolicy,
)
#: Policies that only one kind of algorithm can use
_SPECIAL_POLICIES: tuple[type[BasePolicy], ...] = (RecurrentActorCriticPolicy, MaskableActorCriticPolicy)


def _read_whole_numbers(values: MutableMapping[str, Any]) -> None:
    for name in _WHOLE_NUMBERS:
        if values.get(name) is not None:
            values[name] = read_whole(name, values[name])


class ExtAlgorithm(OnPolicyAlgorithm):
    """
    Mixin, before the SB3 class in the bases: schedules for its parameters, policies by name, the fast path, and a
    ``load`` that checks its arguments.
    """

    #: Parameters that SB3 takes as floats, and this class as schedules too
    schedulable: ClassVar[tuple[str, ...]] = ()
    #: ``None`` for algorithms without a fast path
    fast_path_class: ClassVar[type[FastPath] | None] = None

    schedules: ScheduleSet
    fast: bool | str
    _fast_path: FastPath | None = None
    #: Length of schedules in timesteps, if it is not that of the training
    schedule_timesteps: int | None = None
    #: Timestep of the rollout in which the environments were last compared
    _compared_at: int | None = None

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        _read_whole_numbers(kwargs)  # before SB3's constructors calculate with them
        super().__init__(*args, **kwargs)

    @classmethod
    def load(cls, path: Any, *args: Any, **kwargs: Any) -> Self:
        """
        Like SB3's, but rejects what SB3 accepts silently: unknown keywords, and models of another algorithm.

        :param path: the model's file, or an open file
        :param args: further arguments of SB3's ``load``: env, device, custom_objects, …
        :param kwargs: the same by name, and parameters of the algorithm to change
        """
        parameters = inspect.signature(cls.__init__).parameters
        if not any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values()):
            known = {*parameters, *inspect.signature(OnPolicyAlgorithm.load).parameters}
            check_keywords(f"{cls.__name__}.load", kwargs, known)
            check_saved_by(cls.__name__, parameters, path)
        # A number given here replaces a saved schedule. As an object it can be told from the schedule's present value
        for name in set(cls.schedulable) & set(kwargs):
            if kwargs[name] is not None:
                kwargs[name] = parse_schedule(name, kwargs[name])
        return super().load(path, *args, **kwargs)

    @classmethod
    def check_options(cls, policy: str | type[BasePolicy], **arguments: Any) -> None:
        """
        Raise what the constructor raises for its arguments, as far as that depends neither on the environment nor on
        ``policy_kwargs``. Builds no policy.
        """
        model = cls(policy, None, **arguments, device="cpu", _init_setup_model=False)
        model.observation_space = spaces.Dict()  # which every policy may get
        model._read_arguments()

    def _read_arguments(self) -> None:
        _read_whole_numbers(self.__dict__)  # also what `load` was given
        if "schedules" not in self.__dict__:
            self.schedules = ScheduleSet()
        self.schedules.read(self)
        self._read_options()

    def _setup_model(self) -> None:
        self._read_arguments()
        self.policy_kwargs = resolve_policy_kwargs(self.policy_class, self.policy_kwargs)
        warn_double_frame_skip(self.env)
        if self.fast_path_class is None:
            super()._setup_model()
            return
        self._fast_path = self.fast_path_class()
        given = self.rollout_buffer_class
        if given is None and not isinstance(self.observation_space, spaces.Dict):
            self.rollout_buffer_class = self._fast_path.buffer_class
        super()._setup_model()
        self.rollout_buffer_class = given  # a saved model must not need our buffer

    def _read_options(self) -> None:
        """Read and check the options before the model is built. A loaded model brings its own, and its policy class."""
        if self.fast_path_class is not None and not isinstance(self.fast, bool) and self.fast != ALONE:
            raise ValueError(f"fast={self.fast!r} must be True or False (in YAML without quotes), or {ALONE!r}.")
        usual = next(iter(self.policy_aliases.values()))
        for special in _SPECIAL_POLICIES:
            if issubclass(self.policy_class, special) != issubclass(usual, special):
                raise ValueError(
                    f"{type(self).__name__} can't use the policy {self.policy_class.__module__}."
                    f"{self.policy_class.__name__}: recurrent and maskable policies need the algorithm of their kind, "
                    "which takes no others."
                )

        needs_dict = issubclass(self.policy_class, _POLICIES_FOR_DICTS)
        if needs_dict and not isinstance(self.observation_space, spaces.Dict):
            raise ValueError(
                f"The policy {self.policy_class.__name__} needs Dict observations: use MlpPolicy or CnnPolicy."
            )

    def _get_policy_from_name(self, policy_name: str) -> type[BasePolicy]:
        if "." in policy_name:
            return import_class("policy", policy_name, BasePolicy)
        check_choice("policy", policy_name, self.policy_aliases)
        return super()._get_policy_from_name(policy_name)

    def _maybe_recommend_cpu(self, mlp_class_name: str = "MlpPolicy") -> None:
        super()._maybe_recommend_cpu(mlp_class_name)

    def _setup_learn(self, *args: Any, **kwargs: Any) -> Any:
        self.schedules.read(self)  # parameters may have been set on the model since
        result = super()._setup_learn(*args, **kwargs)
        self._update_current_progress_remaining(self.num_timesteps, self._total_timesteps)
        return result

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        if self.schedule_timesteps is not None:
            total_timesteps = self.schedule_timesteps
            num_timesteps = min(num_timesteps, total_timesteps)
        super()._update_current_progress_remaining(num_timesteps, total_timesteps)
        self.schedules.follow(self, total_timesteps)

    def _update_learning_rate(self, optimizers: list[th.optim.Optimizer] | th.optim.Optimizer) -> None:
        super()._update_learning_rate(optimizers)
        self.schedules.log(self)  # each update starts here, so this is in one row with its other metrics

    @property
    def has_schedules(self) -> bool:
        """Whether any parameter changes during training."""
        return any(True for _ in self.schedules.running(self))

    @property
    def fast_policy(self) -> Any:
        """The policy on the fast path; ``None`` where that does not apply."""
        return None if self._fast_path is None else self._fast_path.policy_of(self)

    def predicting_fast(self) -> AbstractContextManager[None]:
        """Let ``predict`` take the fast path where it applies, as long as the policy does not change."""
        return nullcontext() if self._fast_path is None else self._fast_path.predicting(self)

    def collect_rollouts(
        self, env: VecEnv, callback: BaseCallback, rollout_buffer: RolloutBuffer, *args: Any, **kwargs: Any
    ) -> bool:
        def plain() -> bool:
            return super(ExtAlgorithm, self).collect_rollouts(env, callback, rollout_buffer, *args, **kwargs)

        if self._fast_path is None:
            goes_on = plain()
        else:
            n_steps = args[0] if args else kwargs["n_rollout_steps"]
            goes_on = self._fast_path.collect(self, env, callback, rollout_buffer, n_steps, plain, self._compare_envs)
        if goes_on:
            self._compare_envs(rollout_buffer)
        return goes_on

    def _compare_envs(self, buffer: RolloutBuffer) -> None:
        """Once per rollout, while its arrays are ordered by step and environment."""
        is_dict = isinstance(buffer.observations, dict)
        if self.n_envs == 1 or is_dict or self._compared_at == self.num_timesteps:
            return
        if self._compared_at is None:
            warn_if_copies(buffer.observations, buffer.actions, buffer.episode_starts)
        self._compared_at = self.num_timesteps
        diversity = env_diversity(buffer.observations)
        if diversity is not None:
            self.logger.record("rollout/env_diversity", diversity)

    def learn(self, total_timesteps: int, *args: Any, **kwargs: Any) -> Self:
        """
        Like SB3's, with the name of this class for the logs.

        :param total_timesteps: how many timesteps to train for
        :param args: further arguments of SB3's ``learn``: callback, log_interval, tb_log_name, …
        :param kwargs: the same, by name
        """
        if len(args) < 3:
            kwargs.setdefault("tb_log_name", type(self).__name__)
        return super().learn(total_timesteps, *args, **kwargs)

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "_fast_path", "_compared_at"]
