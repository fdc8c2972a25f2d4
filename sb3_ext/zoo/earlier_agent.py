"""What a training starts from: an agent (RL Zoo's ``-i``), its weights alone (``init_from``), or a run (``resume``)."""

import os
from pathlib import Path
from typing import Any

from rl_zoo3.exp_manager import ExperimentManager
from rl_zoo3.utils import ALGOS
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.clean_text import say
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.statistics import load_statistics, statistics_path
from sb3_ext.runs.agents.transfer import find_weights, init_from
from sb3_ext.runs.facts import RunFacts
from sb3_ext.zoo.config.files import Section
from sb3_ext.zoo.config.mistakes import raise_if_mistake
from sb3_ext.zoo.playing import statistics_or_warning
from sb3_ext.zoo.resume import Resume

__all__ = ["AgentLoader"]


class AgentLoader(ExperimentManager):
    """The part of our ``ExperimentManager`` that loads an earlier agent."""

    _is_ours: bool
    _uses_options: bool
    _section: Section | None
    _resume: Resume | None
    _parent: str | None
    #: Timesteps of the whole training; with ``resume``, RL Zoo gets those that remain
    _total: int
    _weights: Path | None

    def _find_weights(self, source: str | None) -> None:
        """Before the training has a folder of its own, which would be ``@last``."""
        if self.continue_training and source is not None:
            other = f"-i {self.trained_agent}" if self._resume is None else "ext: {resume: …}"
            raise UsageError(f"{other} and ext: {{init_from: {source}}}: only one of them can be given.")
        self._weights = None if source is None else find_weights(source, self.log_folder)

    def _take_over(self, model: BaseAlgorithm) -> None:
        """From an earlier training: a whole agent (RL Zoo's ``-i``), or the weights that fit (``init_from``)."""
        if self.continue_training and self._uses_options:
            run = os.path.dirname(self.trained_agent)
            say(f"-i: schedules and counters start again. To continue the old run: sb3-ext resume {run}", self.verbose)
        if self._weights is not None:
            self._parent = RunFacts.id_of(init_from(model, self._weights, self.log_folder, self.verbose))

    def _maybe_normalize(self, env: VecEnv, eval_env: bool) -> VecEnv:
        # RL Zoo would continue a best model or a checkpoint with the statistics from the end of its training
        is_continued = self.continue_training and self.trained_agent != ""
        if is_continued and self._is_ours and self.normalize:
            self._check_statistics()
        if is_continued and statistics_or_warning(self.trained_agent, bool(self.normalize)) is not None:
            say(f"Loading saved VecNormalize stats of {self.trained_agent}")
            return load_statistics(self.trained_agent, env, training=not eval_env)
        return super()._maybe_normalize(env, eval_env)

    def _check_statistics(self) -> None:
        """RL Zoo would start with new ones, which the agent does not know."""
        of_run = os.path.join(os.path.dirname(self.trained_agent), self.env_name, "vecnormalize.pkl")
        places = (str(statistics_path(self.trained_agent)), of_run)
        if not any(map(os.path.exists, places)):
            expected = f"expected {' or '.join(dict.fromkeys(places))}"
            raise UsageError(f"-i {self.trained_agent}: its normalisation statistics are missing: {expected}.")

    def _load_pretrained_agent(self, hyperparams: dict[str, Any], env: VecEnv) -> BaseAlgorithm:
        if self._resume is None:
            try:
                return super()._load_pretrained_agent(hyperparams, env)
            except (AssertionError, ValueError) as error:
                if self._section is not None:
                    raise_if_mistake(error, self._section, f"-i {self.trained_agent}")
                raise
        settings = {"tensorboard_log": self.tensorboard_log, "verbose": self.verbose, "device": self.device}
        return self._resume.load(ALGOS[self.algo], hyperparams, env, self._total, **settings)
