"""Alerts: rules look at every row of metrics, and say what is wrong and what to tune."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

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
from sb3_ext.callbacks.alerts.rules.numbers import NAN
from sb3_ext.callbacks.alerts.summary import AlertCount, print_summary, write_alert_counts
from sb3_ext.callbacks.base import RunCallback
from sb3_ext.common.names import nearest
from sb3_ext.common.options import read_keywords
from sb3_ext.runs.rows import dump_row, scalars
from sb3_ext.runs.run import Phase

__all__ = ["AlertListener", "Alerts", "TrainingDiverged"]

#: Is told of an alert when it is announced: id, what is wrong in a few words, and all there is to say
AlertListener = Callable[[str, str, str], None]

#: Rows without an alert after which it is announced again
_SILENCE = 100
#: All parameters are looked at after every so many steps at least: algorithms with short rollouts would feel it
_STEPS_BETWEEN_LOOKS = 2048
#: Rows after which a metric that a user's rule looks at should have come
_ROWS_TO_COME = 30


class Alerts(RunCallback):
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
        self._given_folder = None if folder is None else Path(folder)
        self._judge: Judge | None = None
        self._quiet: dict[str, int] = {}
        self._n_rows = 0
        self._total = 0
        self._next_look = 0
        self._told_missing = False
        self._looks_at_nan = self._is_on_policy = True
        self._step_watch: StepWatch | None = None

    def _on_training_start(self) -> None:
        options = self.options
        facts = facts_of(self.model, self.run.threshold)
        self._judge = Judge(options.rules, facts, options.changes)
        self._quiet = {}
        self._n_rows = self._total = 0
        self._next_look = self.num_timesteps
        self._told_missing = not options.added
        self._looks_at_nan = NAN not in options.silence
        self._is_on_policy = isinstance(self.model, OnPolicyAlgorithm)
        self._end_step_watch()
        if self._looks_at_nan:
            self._step_watch = StepWatch(self.model, self._look_at_parameters)
        for listener in self.listeners:
            self.run.on("alert", listener)
        self.run.rows.add_observer(self._judge_row)
        self.run.write_last_row()
        self.run.at_end(Phase.FILES, self._finish)
        if self.verbose >= 1:
            self.run.at_end(Phase.SUMMARY, lambda: print_summary(self.summary()))

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
            self.run.end(error)
            raise error

    def _judge_row(self, step: int, values: Mapping[str, Any]) -> dict[str, float]:
        judge = self._judge
        assert judge is not None
        fired = judge.judge(step, scalars(values))
        self._n_rows += 1
        self._total += len(fired)
        added: dict[str, float] = {f"alert/{rule_id}": 0 for rule_id in judge.judged if judge.tallies[rule_id].fired}
        for alert in fired:
            added[f"alert/{alert.id}"] = 1
            self.run.alert_metrics[alert.id] = alert.metric
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
        self.say(f"Alert {alert.id} after {step:,} steps, {alert.title}: {text}")
        self.run.emit("alert", alert.id, alert.title, text)
        self._write_counts()

    def _write_counts(self) -> None:
        folder = self._given_folder or self.run.folder
        if folder is not None:
            write_alert_counts(folder, self.summary())

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

    def _finish(self) -> None:
        self._end_step_watch()
        if not self._told_missing and self._judge is not None:
            self._tell_missing(self._judge)
        self._write_counts()
