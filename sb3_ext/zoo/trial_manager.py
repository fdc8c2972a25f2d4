"""RL Zoo's ExperimentManager for a training of a study: it keeps no files, and evaluates for the study."""

import argparse
import copy
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import rl_zoo3.train  # noqa: F401  registers environments; the import hook registers us
from rl_zoo3.utils import ALGOS
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import CallbackList, EvalCallback
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env import VecEnv, sync_envs_normalization

from sb3_ext.callbacks.alerts.nonfinite import TrainingDiverged, find_broken_parameters
from sb3_ext.common.fast_path import ALONE
from sb3_ext.common.random_state import RandomState
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.play.scoring import play
from sb3_ext.runs.run import Run
from sb3_ext.zoo.config.files import Section
from sb3_ext.zoo.config.schema import section_parameters
from sb3_ext.zoo.experiment import ExtExperimentManager
from sb3_ext.zoo.trial_training import Point, TrialTraining

__all__ = ["TrialEvaluation", "TrialManager"]

#: Environments that play the episodes of an evaluation side by side
_MAX_EVAL_ENVS = 8


class TrialEvaluation(EvalCallback):
    """
    Evaluates at evenly spaced steps and at the end of the training. What is learned does not depend on it.

    :param on_point: see ``train_trial``
    """

    def __init__(
        self, env: VecEnv, training: TrialTraining, on_point: Callable[[Point], bool], deterministic: bool
    ) -> None:
        super().__init__(env, n_eval_episodes=training.episodes, deterministic=deterministic, verbose=0, warn=False)
        self._training, self._on_point = training, on_point
        self._due = self._next_due(0)
        self._start, self._paused = time.perf_counter(), 0.0
        self.points: list[Point] = []
        #: By a pruner or a limit of time
        self.is_stopped = False
        #: ``learn`` has returned
        self.is_over = False

    def _next_due(self, step: int) -> int:
        """The first step of the next part of the training, in whole numbers: a fraction could end a part twice."""
        n_parts, steps = self._training.evaluations, self._training.timesteps
        return -(-(step * n_parts // steps + 1) * steps // n_parts)

    def _init_callback(self) -> None:
        """There is nothing to save, and environments may be of another kind than for training."""

    def _on_training_start(self) -> None:
        self._start = time.perf_counter()

    @property
    def _seconds(self) -> float:
        return time.perf_counter() - self._start - self._paused

    def _on_step(self) -> bool:
        if self._due <= self.num_timesteps < self._training.timesteps:
            self._due = self._next_due(self.num_timesteps)
            self.is_stopped = not self._evaluate()
        limit = self._training.max_seconds
        self.is_stopped = self.is_stopped or (limit is not None and self._seconds >= limit)
        return not self.is_stopped

    def _on_training_end(self) -> None:
        if not self.points or self.points[-1].step != self.num_timesteps:
            self._evaluate()
        self.is_over = True

    def _evaluate(self) -> bool:
        seconds, start = self._seconds, time.perf_counter()
        broken = find_broken_parameters(self.model)
        if broken:
            raise TrainingDiverged(f"Not finite at {self.num_timesteps:,} steps: {broken[0].what}")
        # Stochastic policies draw actions from torch's generator, which training uses too
        random_state = RandomState.now()
        if self.model.get_vec_normalize_env() is not None:
            sync_envs_normalization(self.training_env, self.eval_env)
        episodes, deterministic = self.n_eval_episodes, self.deterministic
        scores = play(self.model, self.eval_env, episodes=episodes, deterministic=deterministic, warn=False)
        random_state.restore()
        self.points.append(Point(self.num_timesteps, scores.mean, seconds))
        go_on = self._on_point(self.points[-1])
        self._paused += time.perf_counter() - start
        return go_on


class TrialManager(ExtExperimentManager):
    """:param on_point: see ``train_trial``"""

    evaluation: TrialEvaluation

    def __init__(self, training: TrialTraining, on_point: Callable[[Point], bool]) -> None:
        self._training, self._on_point = training, on_point
        self._envs: list[VecEnv] = []
        super().__init__(
            argparse.Namespace(num_threads=training.threads),
            training.algo,
            training.env_id,
            training.log_folder,
            n_timesteps=training.timesteps,
            eval_freq=-1,
            seed=training.seed,
            log_interval=-2,  # no rows
            verbose=0,
        )

    def __getstate__(self) -> dict[str, Any]:
        """ARS sends this object to other processes, which make environments with it."""
        own = dict.fromkeys(("evaluation", "_on_point"))
        return {**vars(self), **own, "callbacks": [], "_envs": []}

    @property
    def _is_trial(self) -> bool:
        return True

    def _whole_section(self) -> dict[str, Any]:
        section = copy.deepcopy(self._training.section)
        if "fast" in section_parameters(ALGOS[self.algo]) and section.get("fast", True) is True:
            section["fast"] = ALONE  # the same results; other trainings have the other cores
        return section

    def _find_section(self) -> Section:
        return Section(f"section {self._training.env_id}", self._training.env_id, self._training.section, None)

    def _preprocess_hyperparams(self, hyperparams: dict[str, Any]) -> Any:
        if (hyperparams.get("ext") or {}).get("resume") is not None:
            raise UsageError("ext: resume: trainings of a study start anew. Use init_from to start from its weights.")
        results = super()._preprocess_hyperparams(hyperparams)
        self.eval_env_kwargs = self.env_kwargs
        return results

    def create_log_folder(self) -> None:
        """There is none."""

    def _save_config(self, saved_hyperparams: dict[str, Any]) -> None:
        """The study has it."""

    def create_envs(self, n_envs: int, eval_env: bool = False, no_log: bool = False) -> VecEnv:
        env = super().create_envs(n_envs, eval_env, no_log=True)
        self._envs.append(env)
        return env

    def create_callbacks(self) -> None:
        super().create_callbacks()
        training = self._training
        env = self.create_envs(min(training.episodes, _MAX_EVAL_ENVS), eval_env=True)
        self.evaluation = TrialEvaluation(env, training, self._on_point, self.deterministic_eval)
        # RL Zoo tells the first callback that training is over, whatever ended it
        self.callbacks = [CallbackList([]), *self.callbacks, self.evaluation]

    def learn(self, model: BaseAlgorithm) -> None:
        model.set_logger(Logger(None, []))  # SB3's would make a folder
        # Callbacks of the section may join it
        run = Run.prepare(model, threshold=self._options.threshold, algo=self.algo)
        try:
            super(ExtExperimentManager, self).learn(model)
        # Ctrl-C too
        except BaseException as error:
            run.end(error)
            raise
        run.end()
        if not self.evaluation.is_over:
            raise KeyboardInterrupt  # which RL Zoo catches

    def close(self) -> None:
        for env in self._envs:
            with suppress(EOFError, OSError):  # its process has died
                env.close()
