"""RL Zoo's ``-optimize``: what its trials need for our algorithms and for action masks."""

import copy
import shlex
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

import optuna
import rl_zoo3.exp_manager
from rl_zoo3.callbacks import TrialEvalCallback
from rl_zoo3.exp_manager import ExperimentManager
from rl_zoo3.hyperparams_opt import HYPERPARAMS_CONVERTER, HYPERPARAMS_SAMPLER
from rl_zoo3.utils import ALGOS
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.callbacks import MaskableEvalCallback
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.clean_text import say
from sb3_ext.zoo.config.mistakes import check_masks
from sb3_ext.zoo.config.write import section_text
from sb3_ext.zoo.options import ExtOptions
from sb3_ext.zoo.samplers import OBSERVATIONS, kind_of
from sb3_ext.zoo.storage_errors import naming_storage

__all__ = ["TrialRunner"]


class MaskableTrialEval(TrialEvalCallback, MaskableEvalCallback):
    """RL Zoo's evaluation of a trial, with action masks."""


@contextmanager
def _masks_in_trials() -> Iterator[None]:
    """RL Zoo evaluates the trials of all algorithms with one class, which knows no masks."""
    module: Any = rl_zoo3.exp_manager
    module.TrialEvalCallback = MaskableTrialEval
    try:
        yield
    finally:
        module.TrialEvalCallback = TrialEvalCallback


class TrialRunner(ExperimentManager):
    """The part of our ``ExperimentManager`` that searches for hyperparameters."""

    _is_ours: bool
    _options: ExtOptions
    _env_config: dict[str, Any]
    _study: optuna.Study | None = None

    def hyperparameters_optimization(self) -> None:
        naming = naming_storage(self.storage) if self._is_ours else nullcontext()
        masks = _masks_in_trials() if issubclass(ALGOS[self.algo], MaskablePPO) else nullcontext()
        with naming, masks:
            super().hyperparameters_optimization()
            if self._study is not None:
                self._say_section(self._study)

    def _preprocess_action_noise(
        self, hyperparams: dict[str, Any], saved_hyperparams: dict[str, Any], env: VecEnv
    ) -> dict[str, Any]:
        if self.optimize_hyperparameters and self._is_ours:
            # Here, because RL Zoo closes this environment next. Without masks, it would prune every trial
            check_masks(self.algo, env)
            self._observations = kind_of(env.observation_space, hyperparams.get("policy"))
            self._searched_section = {**saved_hyperparams, **self._typed()}
        return super()._preprocess_action_noise(hyperparams, saved_hyperparams, env)

    def objective(self, trial: optuna.Trial) -> float:
        if not self._is_ours:
            return super().objective(trial)
        self._study = trial.study
        trial.set_user_attr(OBSERVATIONS, self._observations)
        # RL Zoo asks again and gets the same values. It would normalise as the section says, with the section's gamma
        HYPERPARAMS_SAMPLER[self.algo](trial, self.n_actions, self.n_envs, {})
        section = self._section_of(trial.params)
        # Of its own: with --n-jobs, trials run in threads
        manager = copy.copy(self)
        manager._env_config = {**self._env_config, "normalize": section.get("normalize")}
        manager._preprocess_normalization(copy.deepcopy({key: section.get(key) for key in ("normalize", "gamma")}))
        return super(TrialRunner, manager).objective(trial)

    def _section_of(self, params: dict[str, Any]) -> dict[str, Any]:
        return {**self._searched_section, **HYPERPARAMS_CONVERTER[self.algo](params)}

    def _typed(self) -> dict[str, Any]:
        """What flags of the search change in the section."""
        n_timesteps = self.n_timesteps // (self.n_envs if self._options.axis == "vec_steps" else 1)
        return {"n_timesteps": n_timesteps, **({"env_kwargs": self.env_kwargs} if self.env_kwargs else {})}

    def _say_section(self, study: optuna.Study) -> None:
        best = study.best_trial
        section = section_text(self.env_name.gym_id, self.algo, self._section_of(best.params))
        say(f"Trial {best.number} as a section, for --conf-file:\n\n{section}")
        if self.storage is None:
            say("The trials are not kept: add --study-name and --storage.")
            return
        typed = {**(self.custom_hyperparams or {}), **self._typed()}
        command = ["sb3-ext", "config", "show", self.env_name.gym_id, self.algo, "--study-name", study.study_name]
        command += ["--storage", self.storage, "--trial-id", str(best.number), "--yaml"]
        command += ["--conf-file", self.args.conf_file] if getattr(self.args, "conf_file", None) else []
        say(f"This one or another: {shlex.join([*command, '-params', *(f'{k}:{v!r}' for k, v in typed.items())])}")
