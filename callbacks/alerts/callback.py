"""Alerts: rules look at every row of metrics, and say what is wrong and what to tune."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.callbacks.alerts.context import facts_of
from sb3_ext.callbacks.alerts.engine import Alert, Judge
from sb3_ext.callbacks.alerts.nonfinite import (
    Fault,
    StepWatch,
    TrainingDiverged,
    broken_observations,
    broken_rewards,
    find_broken_parameters,
    has_broken_losses,
    is_finite,
)
from sb3_ext.callbacks.alerts.options import AlertsOptions
from sb3_ext.callbacks.alerts.rules import metric_of, show_at
from sb3_ext.callbacks.alerts.rules.numbers import NAN
from sb3_ext.callbacks.alerts.summary import AlertCount, print_summary, write_alert_counts
from sb3_ext.callbacks.run_folder import folder_of_training
from sb3_ext.common.names import nearest
from sb3_ext.common.options import read_keywords
from sb3_ext.runs.rows import dump_row, last_row, rows_of, scalars

__all__ = ["AlertListener", "Alerts", "TrainingDiverged", "metric_of"]

#: Is told of an alert when it is announced: id, what is wrong in a few words, and all there is to say
AlertListener = Callable[[str, str, str], None]

#: Rows without an alert after which it is announced again
_SILENCE = 100
#: All parameters are looked at after every so many steps at least: algorithms with short rollouts would feel it
_STEPS_BETWEEN_LOOKS = 2048
#: Rows after which a metric that a user's rule looks at should have come
_ROWS_TO_COME = 30


class Alerts(BaseCallback):
    """
    Judges each row that the logger writes, for all algorithms of SB3. Rules whose metrics a row does not have are
    left out: with ``Metrics`` in the list of callbacks, there is more to judge.

    A row gets ``alert/<id>`` (1 when the rule fires, 0 when it has fired before) and ``alert/total`` (how often
    rules fired so far). A rule that fires is told once, and at the end all are summed up, with what to tune.

    :param folder: the run folder, for ``alerts.json``; by default that of the training's ``EvalCallback``, or of its
        logger's files; without these, no file is written
    :param verbose: 1 prints alerts when they fire first, and a summary at the end
    :param options: which rules are checked
    :param fields: fields of :class:`AlertsOptions`, instead of ``options``
    """

    def __init__(
        self, folder: str | None = None, verbose: int = 1, *, options: AlertsOptions | None = None, **fields: Any
    ) -> None:
        super().__init__(verbose)
        self.options = read_keywords(AlertsOptions, options, fields, self)
        #: Are told of alerts as they are announced; add to it what sends them on
        self.listeners: list[AlertListener] = []
        self._given_folder = self._folder = None if folder is None else Path(folder)
        self._judge: Judge | None = None
        self._quiet: dict[str, int] = {}
        self._n_rows = 0
        self._total = 0
        self._next_look = 0
        self._told_missing = False
        self._is_closed = True
        self._looks_at_nan = self._is_on_policy = True
        self._step_watch: StepWatch | None = None

    def _on_training_start(self) -> None:
        options = self.options
        self._judge = Judge(options.rules, facts_of(self.model, options.threshold), options.changes)
        self._folder = self._given_folder or folder_of_training(self)
        self._quiet = {}
        self._n_rows = self._total = 0
        self._next_look = self.num_timesteps
        self._told_missing = not options.added
        self._is_closed = False
        self._looks_at_nan = NAN not in options.silence
        self._is_on_policy = isinstance(self.model, OnPolicyAlgorithm)
        self._end_step_watch()
        if self._looks_at_nan:
            self._step_watch = StepWatch(self.model, self._look_at_parameters)
        rows = rows_of(self.logger)
        rows.add_judge(self._judge_row)
        rows.has_last_row = True

    def _on_rollout_start(self) -> None:
        # Right after an update, and before the policy is asked for actions
        if self._step_watch is None:
            return
        if self._is_on_policy:
            self._step_watch.look()
        broken_losses = has_broken_losses(self.logger.name_to_value)
        if broken_losses or (self._is_on_policy and self.model.num_timesteps >= self._next_look):
            self._next_look = self.model.num_timesteps + _STEPS_BETWEEN_LOOKS
            self._look_at_parameters()

    def _on_step(self) -> bool:
        if self._looks_at_nan:
            observations = self.locals["new_obs"]
            # Not isinstance(…, Mapping), which takes as long as all the rest
            if type(observations) is dict or not is_finite(observations):
                self._end_if_broken(broken_observations(observations))
            if not self._is_on_policy:
                self._end_if_broken(broken_rewards(self.locals["rewards"], self.model.n_envs))
        return True

    def _on_rollout_end(self) -> None:
        # Rewards of a rollout do no harm before its update
        if self._looks_at_nan and isinstance(self.model, OnPolicyAlgorithm):
            normalize = self.model.get_vec_normalize_env()
            # Its statistics have spread a broken reward to all environments
            n_envs = self.model.n_envs if normalize is None or not normalize.norm_reward else 0
            self._end_if_broken(broken_rewards(self.model.rollout_buffer.rewards, n_envs))

    def _on_training_end(self) -> None:
        if self._looks_at_nan:
            self._look_at_parameters()
        last_row(self.logger, self.model.num_timesteps)
        self.close()

    def _look_at_parameters(self) -> None:
        self._end_if_broken(find_broken_parameters(self.model))

    def _end_step_watch(self) -> None:
        if self._step_watch is not None:
            self._step_watch.close()
            self._step_watch = None

    def _end_if_broken(self, broken: list[Fault]) -> None:
        """
        :param broken: what is not finite
        :raises TrainingDiverged: when there is something, and that is to end the training
        """
        judge = self._judge
        if not broken or judge is None:
            return
        known = {fault.metric for fault in judge.look.faults}
        if all(fault.metric in known for fault in broken):
            return  # told already; the first one is where it began
        judge.look.faults += broken
        step = self.model.num_timesteps
        dump_row(self.logger, step)
        if self.options.on_nan == "raise":
            what = ", ".join(fault.what for fault in broken)
            error = TrainingDiverged(f"After {step:,} steps there is NaN or Inf in {what}. {judge.tallies[NAN].advice}")
            self.close(error)
            raise error

    def _judge_row(self, step: int, values: Mapping[str, Any]) -> dict[str, float]:
        judge = self._judge
        if judge is None or self._is_closed:
            return {}
        fired = judge.judge(step, scalars(values))
        self._n_rows += 1
        self._total += len(fired)
        added: dict[str, float] = {f"alert/{rule_id}": 0 for rule_id in judge.judged if judge.tallies[rule_id].fired}
        for alert in fired:
            added[f"alert/{alert.id}"] = 1
            show_at(alert.id, alert.metric)
            if self._quiet.get(alert.id, _SILENCE) >= _SILENCE:
                self._announce(alert, step)
            self._quiet[alert.id] = -1
        for rule_id in self._quiet:
            self._quiet[rule_id] += 1
        added["alert/total"] = self._total
        if not self._told_missing and self._n_rows >= _ROWS_TO_COME:
            self._tell_missing(judge)
        return added

    def _announce(self, alert: Alert, step: int) -> None:
        text = f"{alert.text}. {alert.advice}" if alert.advice else f"{alert.text}."
        if self.verbose >= 1:
            print(f"Alert {alert.id} after {step:,} steps, {alert.title}: {text}")
        for listener in self.listeners:
            try:
                listener(alert.id, alert.title, text)
            except Exception as error:
                # A tracker that can't be reached must not end a training
                warnings.warn(f"Alert {alert.id} could not be sent on: {type(error).__name__}: {error}", stacklevel=2)
        if self._folder is not None:
            write_alert_counts(self._folder, self.summary())

    def _tell_missing(self, judge: Judge) -> None:
        """A rule whose metric never comes can't fire, and its author believes that all is well."""
        self._told_missing = True
        for rule in self.options.added:
            metric = rule.metrics[0]
            if metric not in judge.look.known:
                warnings.warn(
                    f"alerts: add: {rule.id}: no row has had the metric {metric!r} so far: "
                    f"{nearest(metric, judge.look.known)}",
                    stacklevel=2,
                )

    def summary(self) -> list[AlertCount]:
        """Alerts that have fired since the training started, sorted by id."""
        if self._judge is None:
            return []
        counts = []
        for active in sorted(self._judge.active, key=lambda active: active.rule.id):
            tally = self._judge.tallies[active.rule.id]
            if tally.fired:
                share = tally.fired / tally.judged
                counts.append(
                    AlertCount(
                        active.rule.id,
                        tally.metric,
                        tally.fired,
                        share,
                        tally.first_step,
                        tally.last_step,
                        tally.advice,
                    )
                )
        return counts

    def close(self, error: BaseException | None = None) -> None:
        """
        Print the summary, and write it to the run folder. Only the first call after a training does something.

        :param error: what ended the training, if it did not end by itself
        """
        if self._is_closed or self._judge is None:
            return
        self._is_closed = True
        self._end_step_watch()
        if not self._told_missing:
            self._tell_missing(self._judge)
        if self._folder is not None:
            write_alert_counts(self._folder, self.summary())
        if self.verbose >= 1:
            counts = self.summary()
            rows_of(self.logger).tell_at_end(lambda: print_summary(counts))
