"""Evaluates the agent during training, in this process or in a separate one."""

import math
import os
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, Self

import gymnasium as gym
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback
from stable_baselines3.common.vec_env import VecEnv, sync_envs_normalization

from sb3_ext.callbacks.base import RunCallback
from sb3_ext.callbacks.evaluation.options import EvaluationOptions
from sb3_ext.callbacks.evaluation.results import describe, log_late, log_now, metrics_of, save_evaluations
from sb3_ext.callbacks.evaluation.stop import StopCondition
from sb3_ext.callbacks.evaluation.worker import EvaluationWorker
from sb3_ext.common.full_disk import tolerate_full_disk
from sb3_ext.common.options import read_keywords
from sb3_ext.runs.agents.checkpoint import BEST, save_model
from sb3_ext.runs.agents.env_recipe import EnvRecipe, PlaceholderEnv
from sb3_ext.runs.agents.snapshot import AgentSnapshot, ScoreAgent
from sb3_ext.runs.agents.statistics import save_statistics
from sb3_ext.runs.callback_states import EVALUATION_STATE
from sb3_ext.runs.play.scoring import Scores, play
from sb3_ext.runs.run import Phase
from sb3_ext.wrappers.training_link import link_to_training

__all__ = ["Evaluation"]

_EVERY = 10_000
_EPISODES = 5
#: Seconds to wait for an evaluation at the end of a training that was interrupted
_PATIENCE_AFTER_INTERRUPT = 2.0


class Evaluation(RunCallback, EvalCallback):
    """
    SB3's ``EvalCallback``, by timesteps, with a threshold, and optionally in a separate process. That process evaluates
    snapshots of the agent and its normalisation statistics, and the results belong to the snapshot's step.

    Logs ``eval/mean_reward``, ``std_reward``, ``mean_ep_length``, ``best_mean_reward``, ``success_rate``,
    ``n_episodes``, ``time`` and ``step``. Scores are raw rewards of the environment.

    :param eval_env: environments to evaluate in; ``None`` makes one like in training
    :param options: when and how to evaluate
    :param make_env: makes the environments of the separate process, and must be picklable by cloudpickle; ``None``
        makes them from the spec of ``eval_env``
    :param folder: where to save ``evaluations.npz`` and ``best_model.zip``; ``None`` saves neither
    :param callback_on_new_best: called when there is a new best model
    :param callback_after_eval: called after each evaluation
    :param use_masks: give the agent action masks; by default if both support them
    :param render: show the environments; not in the separate process
    :param verbose: 1 prints the results
    :param warn: warn if the environments are not in a Monitor
    :param fields: fields of :class:`EvaluationOptions`, instead of ``options``
    """

    state_names: ClassVar[tuple[str, ...]] = (*EVALUATION_STATE, "last_step", "skipped", "_stop", "_worker")

    def __init__(
        self,
        eval_env: gym.Env | VecEnv | None = None,
        *,
        options: EvaluationOptions | None = None,
        make_env: Callable[[], VecEnv] | None = None,
        folder: str | os.PathLike[str] | None = None,
        callback_on_new_best: BaseCallback | None = None,
        callback_after_eval: BaseCallback | None = None,
        use_masks: bool | None = None,
        render: bool = False,
        verbose: int = 1,
        warn: bool = True,
        **fields: Any,
    ) -> None:
        self.options = read_keywords(EvaluationOptions, options, fields, self)
        if eval_env is None and make_env is not None:
            eval_env = make_env()
        folder = None if folder is None else os.fspath(folder)
        super().__init__(
            PlaceholderEnv() if eval_env is None else eval_env,
            callback_on_new_best,
            callback_after_eval,
            n_eval_episodes=self.options.episodes or _EPISODES,
            log_path=folder,
            best_model_save_path=folder,
            deterministic=True if self.options.deterministic is None else self.options.deterministic,
            render=render,
            verbose=verbose,
            warn=warn,
        )
        #: Timesteps of the latest evaluated agent
        self.last_step: int | None = None
        #: Evaluations that were left out because the process was busy
        self.skipped = 0
        self._has_env = eval_env is not None
        self._make_env = make_env
        self._use_masks = use_masks
        self._stock_freq: int | None = None
        self._stop: StopCondition | None = None
        self._worker: EvaluationWorker | None = None
        self._due = math.inf

    @classmethod
    def from_stock(cls, callback: EvalCallback, options: EvaluationOptions | None = None) -> Self:
        """
        :param callback: SB3's or sb3-contrib's callback, as RL Zoo makes it
        :param options: what to do differently; the rest is taken from the callback
        :return: a callback to use instead
        """
        options = options or EvaluationOptions()
        evaluation = cls(
            callback.eval_env,
            options=options,
            callback_on_new_best=callback.callback_on_new_best,
            callback_after_eval=callback.callback,
            use_masks=getattr(callback, "use_masking", None),
            render=callback.render,
            verbose=callback.verbose,
            warn=callback.warn,
        )
        evaluation.log_path = callback.log_path
        evaluation.best_model_save_path = callback.best_model_save_path
        evaluation._stock_freq = callback.eval_freq
        if options.episodes is None:
            evaluation.n_eval_episodes = callback.n_eval_episodes
        if options.deterministic is None:
            evaluation.deterministic = callback.deterministic
        return evaluation

    @property
    def stop_reason(self) -> str | None:
        """Why training was stopped, by a threshold or a plateau; ``None`` if it was not."""
        return None if self._stop is None else self._stop.reached

    @property
    def threshold(self) -> float | None:
        """Mean raw reward from which the environment counts as solved, known when training begins."""
        return self.options.threshold if self._stop is None else self._stop.threshold

    def _init_callback(self) -> None:
        if not self._has_env:
            self.eval_env = EnvRecipe.of(self.training_env, self.options.envs or 1, self.model.seed).make_alike(
                self.training_env
            )
            link_to_training(self.eval_env, getattr(self.model, "gamma", None))
            self._has_env = True
        n_envs = self.training_env.num_envs
        of_stock = _EVERY if self._stock_freq is None else self._stock_freq * n_envs
        self._every = of_stock if self.options.every is None else self.options.every
        self.eval_freq = max(self._every // n_envs, 1)
        with warnings.catch_warnings():
            # What matters is that both are wrapped alike, which is checked when statistics are copied
            warnings.filterwarnings("ignore", message="Training and eval env are not of the same type")
            super()._init_callback()

    def _on_training_start(self) -> None:
        super()._on_training_start()
        self.skipped = 0
        self._stop = StopCondition(self.options, self.run.threshold)
        self._due = self._next_due() if self._stop.has_begun else math.inf
        if self.options.process:
            score_agent = self._score_agent(render=False, warn=False)
            make_env = self._make_env
            if make_env is None and self.run.make_env is not None:
                make_env = self.run.make_env(self.eval_env.num_envs)
            folder = self.best_model_save_path
            self._worker = EvaluationWorker(self.model, self.eval_env, make_env, score_agent, folder)
        self.run.at_end(Phase.EVALUATE, self._finish)

    def state(self) -> dict[str, Any]:
        is_pending = self._worker is not None and self._worker.pending is not None
        return {**super().state(), "_due": self._due, "is_pending": is_pending}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        assert self._stop is not None
        self._due = min(state["_due"], self._next_due()) if self._stop.has_begun else math.inf
        if state["is_pending"] and (self._worker is None or self._worker.pending is None):
            self._due = self.num_timesteps  # its snapshot was too large: evaluate the present agent instead

    def _next_due(self) -> float:
        if self._every < 1:
            return math.inf  # RL Zoo's --eval-freq -1
        after = max(self.num_timesteps, self.options.warmup - 1)
        return self._every * (after // self._every + 1)

    def _on_step(self) -> bool:
        stop = self._stop
        assert stop is not None, "learn() calls _on_training_start() first"
        go_on = True
        if stop.watches:
            had_begun = stop.has_begun
            stop.see_step(self.locals)
            if stop.has_begun and not had_begun:
                self._due = max(self.num_timesteps, self.options.warmup)
        if self._worker is not None and self._worker.has_result:
            go_on = self._report_late(*self._worker.collect())
        if self.num_timesteps >= self._due:
            go_on = self._evaluate() and go_on
        if stop.reached is not None:
            self.run.stop(stop.reached, stop.advice)
            self.say(f"{stop.headline}, training stops at {self.num_timesteps:,} steps: {stop.reached}")
        return go_on and stop.reached is None

    def _evaluate(self) -> bool:
        self._due = self._next_due()
        go_on = True
        worker = self._worker
        if worker is not None and worker.pending is not None:
            if self.options.busy == "skip":
                worker.warn_behind("The new one is left out", "set busy: wait")
                self.skipped += 1
                return True
            go_on = self._report_late(*worker.catch_up())
        if worker is not None and worker.is_running:
            self._request(worker)
            return go_on
        return self._evaluate_here() and go_on

    def _evaluate_here(self) -> bool:
        if self.model.get_vec_normalize_env() is not None:
            try:
                sync_envs_normalization(self.training_env, self.eval_env)
            except (AssertionError, AttributeError) as error:
                raise ValueError(
                    "The training environments are in a VecNormalize, and the evaluation environments are wrapped "
                    "differently: wrap both alike."
                ) from error
        scores = self._score_agent(render=self.render, warn=self.warn)(self.model, self.eval_env)
        return self._report(self.num_timesteps, scores)

    def _score_agent(self, **kwargs: bool) -> ScoreAgent:
        episodes = self.n_eval_episodes if self.options.steps is None else None
        settings: dict[str, Any] = {"deterministic": self.deterministic, "use_masks": self._use_masks, **kwargs}
        return partial(play, episodes=episodes, steps=self.options.steps, **settings)

    def _request(self, worker: EvaluationWorker) -> None:
        # A curriculum sets the stage in this process only
        stage = self.eval_env.get_attr("stage", 0)[0] if self.eval_env.has_attr("stage") else None
        with tolerate_full_disk(self.best_model_save_path):
            worker.request(self.model, stage)

    def _report_late(self, snapshot: AgentSnapshot, scores: Scores) -> bool:
        try:
            return self._report(snapshot.step, scores, snapshot)
        finally:
            snapshot.discard()

    def _report(self, step: int, scores: Scores, snapshot: AgentSnapshot | None = None) -> bool:
        """
        :param step: timesteps of the evaluated agent
        :param snapshot: the evaluated agent; ``None`` if it is the present one
        :return: whether the callbacks want training to continue
        """
        self.last_step, self.last_mean_reward = step, scores.mean
        best_before = self.best_mean_reward
        is_best = scores.mean > best_before
        self.best_mean_reward = max(best_before, scores.mean)
        self._keep(step, scores)
        metrics = metrics_of(scores, step, self.best_mean_reward)
        if snapshot is not None:
            # First, because an earlier result that waits for its row must be shown before this one
            log_late(self.logger, metrics, self.num_timesteps)
        self.say(describe(scores, step, is_best, is_saved=self.best_model_save_path is not None))
        if snapshot is None:
            log_now(self.logger, metrics, self.num_timesteps)
        if self._stop is not None and not self.run.is_over:
            self._stop.see_evaluation(scores.mean, step / self.model._total_timesteps)
        if not is_best:
            return self._on_event()
        with tolerate_full_disk(self.best_model_save_path):
            self._save_best(snapshot)
            go_on = self.callback_on_new_best is None or self.callback_on_new_best.on_step()
            return go_on and self._on_event()
        self.best_mean_reward = best_before  # the one that was saved
        return self._on_event()

    def _keep(self, step: int, scores: Scores) -> None:
        self.evaluations_timesteps.append(step)
        self.evaluations_results.append(list(scores.rewards))
        self.evaluations_length.append(list(scores.lengths))
        if scores.successes:
            self.evaluations_successes.append(list(scores.successes))
        if self.log_path is None:
            return
        with tolerate_full_disk(os.path.dirname(self.log_path)):
            save_evaluations(
                Path(f"{self.log_path}.npz"),
                timesteps=self.evaluations_timesteps,
                results=self.evaluations_results,
                ep_lengths=self.evaluations_length,
                successes=self.evaluations_successes,
            )

    def _save_best(self, snapshot: AgentSnapshot | None) -> None:
        if self.best_model_save_path is not None:
            best = Path(self.best_model_save_path, f"{BEST}.zip")
            if snapshot is not None:
                snapshot.keep_as(best)
            else:
                save_statistics(self.model, best)
                save_model(self.model, best)

    def _finish(self) -> None:
        error = self.run.error
        try:
            if error is None or self.run.is_interrupted:
                self._finish_evaluations(is_complete=error is None)
            if error is None and "eval/step" in self.logger.name_to_value:
                self.run.rows.flush(self.num_timesteps)
        finally:
            self._stop_worker()
        if error is None and self._stop is not None:
            if self.skipped:
                self.say(f"Evaluations left out because the one before was still running: {self.skipped}.")
            self._stop.warn_if_blind()

    def _finish_evaluations(self, is_complete: bool) -> None:
        """Wait for the running evaluation, and evaluate the last weights."""
        if self._worker is not None and self._worker.pending is not None:
            self._wait(self._worker, is_complete)
        if not (is_complete and self.options.evaluates_at_end) or self.last_step == self.num_timesteps:
            return
        worker = self._worker
        if worker is not None and worker.is_running:
            self._request(worker)
            self._wait(worker, is_complete)
        elif worker is not None or not self.options.process:
            self._evaluate_here()

    def _wait(self, worker: EvaluationWorker, is_complete: bool) -> None:
        assert worker.pending is not None
        step = worker.pending.step
        patience = worker.patience if is_complete else _PATIENCE_AFTER_INTERRUPT
        if not worker.has_result:
            self.say(f"Waiting for the evaluation of step {step:,}, up to {patience:.0f} s (Ctrl-C: without it)")
        try:
            self._report_late(*(worker.collect_anyway() if is_complete else worker.collect(patience)))
        except (TimeoutError, KeyboardInterrupt) as reason:
            why = f"it took longer than {patience:.0f} s" if isinstance(reason, TimeoutError) else "interrupted"
            warnings.warn(f"The evaluation of step {step:,} is left out: {why}.", stacklevel=2)
            self._stop_worker()

    def _stop_worker(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None
