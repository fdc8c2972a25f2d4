"""The hyperparameters of a training: RL Zoo reads them, from the file that has a section, and they are checked."""

from collections import OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import rl_zoo3.exp_manager
from rl_zoo3.exp_manager import ExperimentManager
from rl_zoo3.utils import ALGOS

from sb3_ext.common.clean_text import say
from sb3_ext.common.schedules import parse_schedule
from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.config.check import check_training, training_section
from sb3_ext.zoo.config.files import Section
from sb3_ext.zoo.config.parts import env_problems
from sb3_ext.zoo.config.reader import Problem, raise_problems
from sb3_ext.zoo.config.schema import section_parameters
from sb3_ext.zoo.registry import STOCK_EQUIVALENT
from sb3_ext.zoo.resume import requested_section
from sb3_ext.zoo.samplers import read_trial
from sb3_ext.zoo.train_flags import fold_ext

__all__ = ["HyperparameterReader"]


class HyperparameterReader(ExperimentManager):
    """The part of our ``ExperimentManager`` that reads hyperparameters."""

    _is_ours: bool
    #: Where the hyperparameters come from; ``None`` before they are read, and for stock algorithms without ``ext:``
    _section: Section | None = None
    _trial_keys: tuple[str, ...] = ()

    def read_hyperparameters(self) -> tuple[dict[str, Any], dict[str, Any]]:
        whole, typed = self._whole_section(), tuple(self.custom_hyperparams or {})
        if whole is None and not self._is_ours:
            hyperparams, saved_hyperparams = map(fold_ext, super().read_hyperparameters())
            if "ext" in hyperparams:
                self._check(hyperparams, self._find_section(), typed)
            return hyperparams, saved_hyperparams
        self._section = self._find_section()
        if whole is None:
            hyperparams, saved_hyperparams = self._read_section(self._section)
        else:
            hyperparams, saved_hyperparams = dict(whole), whole
        if self.n_timesteps > 0:
            hyperparams.setdefault("n_timesteps", self.n_timesteps)
        self._check(hyperparams, self._section, typed)
        parameters = section_parameters(ALGOS[self.algo]) if self._is_ours else {}
        return {k: parameters[k].read(v) if k in parameters else v for k, v in hyperparams.items()}, saved_hyperparams

    def read_with_sources(self) -> tuple[dict[str, Any], Section]:
        """The hyperparameters, and where they come from."""
        hyperparams, _ = self.read_hyperparameters()
        return hyperparams, self._section or self._find_section()

    def _whole_section(self) -> dict[str, Any] | None:
        """All hyperparameters of the training, if they don't come from a file."""
        whole = requested_section(self.custom_hyperparams)
        if whole is None and not self._is_ours and self.trial_id is not None and self.storage and self.study_name:
            trial = read_trial(self.algo, self.storage, self.study_name, self.trial_id, convert=True)
            if "policy" in trial:  # of `sb3-ext tune`; RL Zoo reads its own
                whole = OrderedDict(sorted(fold_ext({**trial, **(self.custom_hyperparams or {})}).items()))
        return whole

    def _find_section(self) -> Section:
        return training_section(self.config, self.algo, self.env_name.gym_id, self._is_atari, self.custom_hyperparams)

    def _read_section(self, section: Section) -> tuple[dict[str, Any], dict[str, Any]]:
        if section.config != self.config:
            stock_algo = STOCK_EQUIVALENT[self.algo]
            say(f"No section for {self.env_name.gym_id} in {self.config}: using RL Zoo's for {stock_algo}")
            self.config = section.config
        self._load_trial_zero()
        with _files_in_utf8():
            hyperparams, saved_hyperparams = map(fold_ext, super().read_hyperparameters())
        if "policy" in self._trial_keys:  # a whole section, of `sb3-ext tune`
            kept = {*self._trial_keys, *(key.partition(".")[0] for key in self.custom_hyperparams or {})}
            hyperparams, saved_hyperparams = (
                {key: value for key, value in each.items() if key in kept} for each in (hyperparams, saved_hyperparams)
            )
        return hyperparams, saved_hyperparams

    def _check(self, hyperparams: dict[str, Any], section: Section, typed: tuple[str, ...]) -> None:
        """
        :param typed: keys of ``-params``
        :raises UsageError: with everything that is wrong, before anything is made
        """
        trial = dict.fromkeys(self._trial_keys, f"trial {self.trial_id} of the study {self.study_name!r}")
        self._section = section._replace(overridden={**trial, **dict.fromkeys(typed, "-params")})
        env_id = self.env_name.gym_id
        has_budget = self.n_timesteps > 0
        problems = check_training(self._section, hyperparams, self.algo, env_id, has_budget, self.log_folder)
        for flag, kwargs in (("--env-kwargs", self.env_kwargs), ("--eval-env-kwargs", self._eval_env_kwargs_args)):
            if kwargs is not hyperparams.get("env_kwargs"):
                problems += [Problem(flag, line) for line in env_problems(env_id, kwargs)]
        raise_problems(problems)

    def _preprocess_schedules(self, hyperparams: dict[str, Any]) -> dict[str, Any]:  # type: ignore[override]
        # Our algorithms read schedules themselves, more kinds of them and for more parameters
        return hyperparams if self._is_ours else super()._preprocess_schedules(hyperparams)

    def _preprocess_normalization(self, hyperparams: dict[str, Any]) -> dict[str, Any]:
        hyperparams = super()._preprocess_normalization(hyperparams)
        if self._is_ours and "gamma" in self.normalize_kwargs:
            # VecNormalize takes one number: the discount at the start of training
            gamma = parse_schedule("gamma", self.normalize_kwargs["gamma"])
            self.normalize_kwargs["gamma"] = gamma(1.0)
        return hyperparams

    def _load_trial_zero(self) -> None:
        """RL Zoo takes ``--trial-id 0`` for no trial, and would silently train with the defaults."""
        if self.trial_id is None:
            return
        if not self.storage or not self.study_name:
            raise UsageError(f"--trial-id {self.trial_id} needs --study-name and --storage.")
        if self.trial_id == 0:
            say("Loading trial 0 from Optuna study...")
            trial_hyperparams = self.load_trial(self.storage, self.study_name, self.trial_id)
            self.custom_hyperparams = {**trial_hyperparams, **(self.custom_hyperparams or {})}

    def load_trial(
        self, storage: str, study_name: str, trial_id: int | None = None, convert: bool = True
    ) -> dict[str, Any]:
        if not self._is_ours:
            return super().load_trial(storage, study_name, trial_id, convert)
        trial = read_trial(self.algo, storage, study_name, trial_id, convert)
        self._trial_keys = tuple(trial)
        return trial


@contextmanager
def _files_in_utf8() -> Iterator[None]:
    """RL Zoo reads hyperparameter files in the machine's encoding and fails at a comment that is not ASCII."""
    module: Any = rl_zoo3.exp_manager
    module.open = partial(open, encoding="utf-8")
    try:
        yield
    finally:
        del module.open
