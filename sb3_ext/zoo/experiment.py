"""RL Zoo's ExperimentManager, extended for our algorithms and the ``ext:`` key. Without them it adds nothing."""

import argparse
import atexit
import gc
import os
import signal
import sys
import warnings
from functools import partial
from typing import Any

import torch as th
from rl_zoo3.exp_manager import ExperimentManager
from rl_zoo3.utils import ALGOS
from sb3_contrib import MaskablePPO
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import EvalCallback

from sb3_ext.callbacks.observation_scale import WarnObservationScale
from sb3_ext.common.algorithm import ExtAlgorithm
from sb3_ext.common.clean_text import mask_passwords, masked_command_line, say
from sb3_ext.common.full_disk import is_full_disk
from sb3_ext.common.usage_error import UsageError
from sb3_ext.fast.threads import choose_threads
from sb3_ext.hyperparams import hyperparams_file
from sb3_ext.runs.agents.bundle import saved_step
from sb3_ext.runs.facts import RunFacts
from sb3_ext.runs.log_file import LogFile
from sb3_ext.runs.rewind import monitor_kwargs
from sb3_ext.runs.run import Phase, Run
from sb3_ext.runs.stop_signals import received_signal
from sb3_ext.vec_env.choose import VecEnvChooser
from sb3_ext.vec_env.subproc import dead_worker
from sb3_ext.vec_env.worker import WorkerDied
from sb3_ext.wrappers.training_link import link_to_training, tell_progress
from sb3_ext.zoo import env_factory
from sb3_ext.zoo.callbacks import build_callbacks, masked
from sb3_ext.zoo.command_line import is_our_command
from sb3_ext.zoo.config.mistakes import check_masks, raise_if_mistake
from sb3_ext.zoo.earlier_agent import AgentLoader
from sb3_ext.zoo.environments import EnvironmentMaker
from sb3_ext.zoo.final_model import save_final_model
from sb3_ext.zoo.hyperparameters import HyperparameterReader
from sb3_ext.zoo.optimize import TrialRunner
from sb3_ext.zoo.options import read_ext
from sb3_ext.zoo.registry import ALGORITHMS
from sb3_ext.zoo.resume import Resume, keep_counting
from sb3_ext.zoo.run_folder import claim_folder, missing_folders, remove_folders
from sb3_ext.zoo.seams import replace_in_rl_zoo
from sb3_ext.zoo.train_flags import typed_flags
from sb3_ext.zoo.upstream import hyperparams_folder

__all__ = ["ExtExperimentManager", "patch_experiment_manager"]


def patch_experiment_manager() -> None:
    """RL Zoo has no setting for the class that reads its configs: put ours where its commands look for it."""
    replace_in_rl_zoo(ExperimentManager, ExtExperimentManager)


def _exit_quickly() -> None:
    """When Python exits, it looks for cycles among the objects of all libraries, which takes seconds: skip that."""

    def freeze() -> None:
        gc.freeze()
        if "ale_py" in sys.modules:
            # It reports each object that is still there, in 20 lines
            os.dup2(os.open(os.devnull, os.O_WRONLY), 2)

    atexit.unregister(gc.unfreeze)
    atexit.register(freeze)


class ExtExperimentManager(HyperparameterReader, EnvironmentMaker, AgentLoader, TrialRunner):
    """Takes the same arguments as RL Zoo's class."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._is_ours = self.algo in ALGORITHMS
        self._is_saved = self._is_interrupted = False
        self._log_file: LogFile | None = None
        self._resume: Resume | None = None
        self._parent = RunFacts.id_of(self.trained_agent) if self.continue_training else None
        if self._is_ours and self.config == str(hyperparams_folder() / f"{self.algo}.yml"):
            self.config = str(hyperparams_file(self.algo))

    def setup_experiment(self) -> Any:
        self._has_claimed = False
        self._missing_folders = missing_folders(self.log_path)
        try:
            results = super().setup_experiment()
            if results is not None and self._is_ours:
                check_masks(self.algo, results[0].env)
                self._link_envs(results[0])
            if results is not None and self._resume is None:
                self._take_over(results[0])
            if results is not None and self._uses_options:
                self._set_threads(results[0])
            return results
        # Ctrl-C too
        except BaseException as error:
            if self._log_file is not None:
                self._log_file.close()
            self._remove_folder()
            if isinstance(error, Exception) and self._section is not None:
                raise_if_mistake(error, self._section)
            raise

    def _remove_folder(self) -> None:
        """A mistake must not leave a run without a model, which ``enjoy`` takes for the latest."""
        remove_folders(self.save_path if self._has_claimed else None, self._missing_folders)

    def _link_envs(self, model: Any) -> None:
        """Before the first episode."""
        evaluations = [callback.eval_env for callback in self.callbacks if isinstance(callback, EvalCallback)]
        for env in (model.env, *evaluations):
            link_to_training(env, getattr(model, "gamma", None))
        tell_progress(model.env, 0.0)

    def create_log_folder(self) -> None:
        if self._is_ours and self._is_trial:
            # A search keeps no agent, and `enjoy` would take an empty run folder for the latest run. A study's database
            # needs the folder above
            os.makedirs(self.log_path, exist_ok=True)
            return
        if self._resume is not None:
            self.save_path = str(self._resume.folder)
            self._resume.rewind()
            self.monitor_kwargs = {**self.monitor_kwargs, **monitor_kwargs(self.save_path, self.n_envs)}
        elif self._uses_options:
            try:
                self.save_path = claim_folder(self.save_path, self.log_path, self.env_name)
            except OSError as error:
                reason = error.strerror or error
                raise UsageError(f"-f {self.log_folder}: the folder of the run can't be made: {reason}.") from error
            self._has_claimed = True
        self.params_path = f"{self.save_path}/{self.env_name}"
        super().create_log_folder()
        if self._uses_options:
            self._log_file = LogFile(self.save_path)

    def _save_config(self, saved_hyperparams: dict[str, Any]) -> None:
        if self._resume is not None:
            self._resume.save_section(saved_hyperparams)
            return
        if not self._is_ours:
            super()._save_config(saved_hyperparams)
            return
        # RL Zoo saves the command line, and push_to_hub publishes it: --storage may contain a password
        args = self.args
        masked = {
            name: mask_passwords(value) if isinstance(value, str) else value for name, value in vars(args).items()
        }
        self.args = argparse.Namespace(**masked)
        try:
            with masked_command_line():
                super()._save_config(saved_hyperparams)
        finally:
            self.args = args

    def create_callbacks(self) -> None:
        evaluation = self._options.evaluation
        if evaluation is not None and evaluation.envs is not None:
            self.n_eval_envs = evaluation.envs
        super().create_callbacks()
        if issubclass(ALGOS[self.algo], MaskablePPO):
            # Without masks, evaluation would play impossible actions
            self.callbacks = [masked(callback) for callback in self.callbacks]
        if self._uses_options and not self._is_trial:
            self.callbacks = build_callbacks(self.callbacks, self._options, self.verbose)
        if self._is_ours and not self._is_trial:
            self.callbacks.append(WarnObservationScale())

    def learn(self, model: BaseAlgorithm) -> None:
        if self._uses_options:
            self._is_saved = False
            make_env = partial(env_factory.env_factory, self)
            options = {name: getattr(self._options, name) for name in ("threshold", "axis", "stop_signals")}
            known: dict[str, Any] = {"folder": self.save_path, "algo": self.algo, "make_env": make_env}
            known["log_folder"] = self.log_folder if self._resume is None else self._resume.log_folder
            known["parent"] = self._parent
            known["earlier"] = None if self._resume is None else self._resume.facts
            run = Run.prepare(model, arguments=sys.argv[1:], log_file=self._log_file, **known, **options)
            if self._resume is not None:
                keep_counting(model, self._resume.state)
            # RL Zoo saves it after `learn`: by then, callbacks may have recorded videos and written a report
            run.at_end(Phase.FINAL_MODEL, lambda: self._save_once(model))
        else:
            run = Run.prepare(model)  # a section may name callbacks of ours
        try:
            super().learn(model)
        # Ctrl-C and sys.exit() end the run too
        except BaseException as error:
            if not isinstance(error, Exception) or received_signal() is None:
                evaluations = [callback.eval_env for callback in self.callbacks if isinstance(callback, EvalCallback)]
                envs = (model.get_env(), *evaluations) if isinstance(error, EOFError | OSError) else ()
                died = next(filter(None, map(dead_worker, envs)), None)
                run.end(died or error)
                if isinstance(error, UsageError):
                    self._remove_folder()
                self._explain(died or error)
                raise
            # A signal to a whole process group ends the environments too, and they can't be closed any more
            if not isinstance(error, EOFError | ConnectionError | WorkerDied):
                warnings.warn(f"At the end of the training: {type(error).__name__}: {error}", stacklevel=2)
        try:
            run.end()
        except OSError as error:
            self._explain(error)
            raise
        self._is_interrupted = self._uses_options and run.is_interrupted

    def _explain(self, error: BaseException) -> None:
        """End the program where a traceback would show what noticed the problem, not what it is."""
        if self._uses_options and isinstance(error, WorkerDied):
            sys.exit(f"{error.__cause__ or error}\ncontinue with: sb3-ext resume {self.save_path}")
        if self._uses_options and is_full_disk(error):
            sys.exit(f"{self.save_path}: {error.strerror}: the final model is not saved.")

    def _save_once(self, model: BaseAlgorithm) -> None:
        if not self._is_saved:
            save = save_final_model if self._uses_options else ExperimentManager.save_trained_model
            save(self, model)
            self._is_saved = True

    def save_trained_model(self, model: BaseAlgorithm) -> None:
        self._save_once(model)
        self._is_saved = False
        if self._is_interrupted:
            _exit_quickly()
            saved = saved_step(self.save_path)
            state = "" if saved in (None, model.num_timesteps) else f" (state saved at {saved:,})"
            at = f"interrupted at {model.num_timesteps:,} steps{state}"
            say(f"{at}; continue with: sb3-ext resume {self.save_path}")
        number = received_signal()
        if number is not None and (number != signal.SIGINT or is_our_command()):
            # As in shells: the training must not pass for complete. RL Zoo's command exits with 0 after Ctrl-C
            sys.exit(128 + number)

    def hyperparameters_optimization(self) -> None:
        try:
            super().hyperparameters_optimization()
        except UsageError:
            self._remove_folder()
            raise

    def _preprocess_hyperparams(self, hyperparams: dict[str, Any]) -> Any:
        self._uses_options = self._is_ours or "ext" in hyperparams
        typed = typed_flags(self.args)
        if self.save_freq > 0:
            typed["save_freq"] = self.save_freq
        section = dict(hyperparams)
        options, n_envs = read_ext(hyperparams.pop("ext", None), self._is_ours), int(hyperparams.get("n_envs", 1))
        if options.resume is not None:
            self._resume = Resume(options.resume, self.algo, self.env_name.gym_id, self.log_folder)
            self._resume.compare(section)
            # Statistics are in the state; without one, they are beside the model
            has_state = self._resume.bundle.state is not None
            self.trained_agent, self.continue_training = "" if has_state else str(self._resume.bundle.source), True
        self._find_weights(options.init_from)
        self._options = options.in_timesteps(n_envs).overridden_by(typed)
        if options.axis == "vec_steps" and self.n_timesteps <= 0:
            hyperparams["n_timesteps"] = float(hyperparams["n_timesteps"]) * n_envs
        requested = self._options.vec_env
        curriculum = self._options.curriculum
        native = self._options.native and requested == "auto" and curriculum is None and not self._options.members
        if requested == "auto" and self._is_trial:
            requested = "dummy"  # trials run side by side and need no processes of their own
        self._chooser = VecEnvChooser(native, requested, self.verbose, self._options.exact_pixels)
        ours: list[Any] = []
        if curriculum is not None:
            ours.append(curriculum.callback_entry(0 if self._is_trial else self.verbose))
        if self._uses_options and self._is_trial:
            # Trials only get the callbacks of a section
            ours.append("sb3_ext.callbacks.TrainingProgress")
        if ours:
            callbacks = hyperparams.get("callback") or []
            hyperparams["callback"] = [*(callbacks if isinstance(callbacks, list) else [callbacks]), *ours]
        self._env_config = {key: hyperparams.get(key) for key in ("env_wrapper", "vec_env_wrapper", "normalize")}
        results = super()._preprocess_hyperparams(hyperparams)
        if self._resume is not None:
            # Before anything in the run's folder changes
            self._resume.check(self._options.checkpoints)
            self._total, self.n_timesteps = self.n_timesteps, self._resume.remaining(self.n_timesteps)
        if self._uses_options and self._eval_env_kwargs_args is None:
            # RL Zoo takes only those of the command line, and would evaluate in another task than the file's
            self.eval_env_kwargs = self.env_kwargs
        return results

    def _set_threads(self, model: Any) -> None:
        asked = getattr(self.args, "num_threads", None) or -1
        if asked > 0 or not isinstance(model, ExtAlgorithm) or model.fast_path_class is None:
            return
        threads = self._options.threads
        measured = threads == "auto" and th.get_num_threads() > 1
        chosen = choose_threads(model) if threads == "auto" else int(threads)
        th.set_num_threads(chosen)
        say(f"Threads of torch: {chosen}{' (measured)' if measured else ''}", self.verbose)
