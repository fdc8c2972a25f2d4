"""The environments of a training: RL Zoo makes them, of the kind and with the wrappers that ``ext:`` asks for."""

from collections.abc import Callable
from functools import partial
from typing import Any

import gymnasium as gym
from rl_zoo3.exp_manager import ExperimentManager
from stable_baselines3.common.vec_env import DummyVecEnv, VecEnv

from sb3_ext.common.env_spec import remember_spec
from sb3_ext.vec_env.choose import EnvConfig, VecEnvChoice, VecEnvChooser
from sb3_ext.vec_env.mixed import mixed, once_each
from sb3_ext.vec_env.monitor_files import tolerant_monitors
from sb3_ext.vec_env.subproc import closing_safely
from sb3_ext.zoo.options import ExtOptions

__all__ = ["EnvironmentMaker"]


class EnvironmentMaker(ExperimentManager):
    """The half of our ``ExperimentManager`` that makes environments."""

    _is_ours: bool
    _uses_options: bool
    _options: ExtOptions
    _chooser: VecEnvChooser
    _env_config: dict[str, Any]

    @property
    def _is_trial(self) -> bool:
        """Whether trainings run side by side, in a search for hyperparameters, and keep no files."""
        return self.optimize_hyperparameters

    def create_envs(self, n_envs: int, eval_env: bool = False, no_log: bool = False) -> VecEnv:
        # A search has no run folder for Monitor's files, see create_log_folder()
        no_log = no_log or (self._is_ours and self._is_trial)
        if not self._uses_options:
            return super().create_envs(n_envs, eval_env, no_log)
        given = self.vec_env_class, self.frame_stack, self.env_wrapper
        monitor_dir = None if eval_env or no_log else self.save_path
        try:
            self._enter_curriculum(eval_env)
            if self.vec_env_class is DummyVecEnv:
                choice = self._choose_vec_env(eval_env, monitor_dir)
                self.vec_env_class = choice.make  # type: ignore[assignment]
                self.frame_stack = None if choice.stacks_frames else self.frame_stack
            self.vec_env_class = tolerant_monitors(self.vec_env_class)  # type: ignore[assignment]
            n_envs = self._mix_members(n_envs, eval_env, monitor_dir)
            env = super().create_envs(n_envs, eval_env, no_log)
            remember_spec(env, gym.spec(self.env_name.gym_id))
            return closing_safely(env)
        finally:
            self.vec_env_class, self.frame_stack, self.env_wrapper = given

    def _enter_curriculum(self, eval_env: bool) -> None:
        curriculum = self._options.curriculum
        if curriculum is not None:
            # Checks all stages in this process, whose errors are easier to read
            curriculum.wrap(self._env_maker(eval_env)(), self.env_wrapper).close()
            self.env_wrapper = partial(curriculum.wrap, env_wrapper=self.env_wrapper, evaluation=eval_env)

    def _mix_members(self, n_envs: int, eval_env: bool, monitor_dir: str | None) -> int:
        members = self._options.members
        if not members:
            return n_envs
        if eval_env or n_envs != self.n_envs:
            # Not for training: equal shares
            members, n_envs = once_each(members), max(n_envs, len(members))
        self.vec_env_class = mixed(  # type: ignore[assignment]
            self.vec_env_class,
            members,
            self._env_maker(eval_env),
            env_wrapper=self.env_wrapper,
            seed=self.seed,
            monitor_dir=monitor_dir,
            monitor_kwargs=self.monitor_kwargs,
        )
        return n_envs

    def _env_maker(self, eval_env: bool) -> Callable[[], gym.Env]:
        env_kwargs = (self.eval_env_kwargs if eval_env else self.env_kwargs) or {}
        return partial(gym.spec(self.env_name.gym_id).make, **env_kwargs)

    def _choose_vec_env(self, eval_env: bool, monitor_dir: str | None) -> VecEnvChoice:
        # Other processes get these, and must not get this object
        make_base, wrapper = self._env_maker(eval_env), self.env_wrapper
        config = EnvConfig(
            env_id=self.env_name.gym_id,
            env_kwargs=(self.eval_env_kwargs if eval_env else self.env_kwargs) or {},
            frame_stack=self.frame_stack,
            monitor_kwargs=self.monitor_kwargs,
            **self._env_config,
        )
        make_env = make_base if wrapper is None else lambda: wrapper(make_base())
        # As many as for training, for evaluation too: SB3 warns if they are of different kinds
        return self._chooser.choose(config, self.n_envs, make_env, monitor_dir)
