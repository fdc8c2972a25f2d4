"""The callback that checks every row of metrics and announces alerts."""

import warnings
from collections.abc import Callable, Mapping
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, ClassVar

from rich import box, get_console
from rich.table import Table
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.callbacks.alerts.context import facts_of
from sb3_ext.callbacks.alerts.engine import Alert, AlertCount, RuleEngine
from sb3_ext.callbacks.alerts.nonfinite import (
    NonFinite,
    ParameterWatch,
    TrainingDiverged,
    broken_observations,
    broken_rewards,
    find_broken_parameters,
    has_broken_losses,
    is_finite,
)
from sb3_ext.callbacks.alerts.options import AlertsOptions
from sb3_ext.callbacks.alerts.rules.numbers import NAN
from sb3_ext.callbacks.base import RunCallback
from sb3_ext.common.full_disk import tolerate_full_disk
from sb3_ext.common.names import nearest
from sb3_ext.common.options import read_keywords
from sb3_ext.runs.files import ALERTS_FILE, write_json
from sb3_ext.runs.rows import dump_row, scalars
from sb3_ext.runs.run import Phase

__all__ = ["AlertListener", "Alerts", "TrainingDiverged"]

#: Called for each announced alert, with its id, title and full text
AlertListener = Callable[[str, str, str], None]

#: Rows without an alert after which it is announced again
_SILENCE = 100
#: Steps between checks of all parameters, which would slow down algorithms with short rollouts
_STEPS_BETWEEN_LOOKS = 2048
#: Rows after which the metric of a user's rule should have appeared
_ROWS_TO_COME = 30


class Alerts(RunCallback):
    """
    Checks each row that the logger writes. Works with every SB3 algorithm. A rule is skipped in rows without its
    metrics; with ``Metrics`` in the list of callbacks, more rules apply.

    A row gets ``alert/<id>`` (1 if the rule fired, 0 if it fired before) and ``alert/total`` (how often rules have
    fired so far). Each alert is announced once. At the end there is a summary, with what to tune.

    :param folder: the run folder, for ``alerts.json``; default: that of the training's ``EvalCallback`` or logger;
        without these, no file is written
    :param verbose: 1 prints alerts when they first fire, and a summary at the end
    :param options: which rules are checked
    :param fields: fields of :class:`AlertsOptions`, instead of ``options``
    """

    state_names: ClassVar[tuple[str, ...]] = ("_engine", "_quiet", "_n_rows", "_total", "_next_look", "_told_missing")

    def __init__(
        self, folder: str | None = None, verbose: int = 1, *, options: AlertsOptions | None = None, **fields: Any
    ) -> None:
        super().__init__(verbose)
        self.options = read_keywords(AlertsOptions, options, fields, self)
        #: Called for each announced alert
        self.listeners: list[AlertListener] = []
        self._given_folder = None if folder is None else Path(folder)

    def _on_training_start(self) -> None:
        options = self.options
        facts = facts_of(self.model, self.run.threshold)
        self._engine = RuleEngine(options.rules, facts, options.changes)
        self._quiet: dict[str, int] = {}
        self._n_rows = self._total = 0
        self._next_look = self.num_timesteps
        self._told_missing = not options.added
        self._looks_at_nan = NAN not in options.silence
        self._is_on_policy = isinstance(self.model, OnPolicyAlgorithm)
        self._parameter_watch = ParameterWatch(self.model, self._look_at_parameters) if self._looks_at_nan else None
        for listener in self.listeners:
            self.run.on("alert", lambda *alert, listener=listener: listener(*alert[:3]))
        self.run.rows.add_observer(self._check_row)
        self.run.write_last_row()
        self.run.at_end(Phase.FILES, self._finish)
        if self.verbose >= 1:
            self.run.at_end(Phase.SUMMARY, lambda: _print_summary(self.summary()))

    def state(self) -> dict[str, Any]:
        return {**super().state(), "length": self._engine.context.facts.length}

    def restore(self, state: Mapping[str, Any]) -> None:
        super().restore(state)
        context = self._engine.context
        context.facts = replace(context.facts, start=self.model._num_timesteps_at_start)
        if context.facts.length != state["length"]:
            self._engine.rescale(state["length"] / context.facts.length)
        self.run.alert_metrics.update({count.id: count.metric for count in self.summary()})
        self._write_counts()

    def _on_rollout_start(self) -> None:
        # After an update and before the policy chooses actions
        if self._parameter_watch is None:
            return
        if self._is_on_policy:
            self._parameter_watch.check()
        broken_losses = has_broken_losses(self.logger.name_to_value)
        if broken_losses or (self._is_on_policy and self.model.num_timesteps >= self._next_look):
            self._next_look = self.model.num_timesteps + _STEPS_BETWEEN_LOOKS
            self._look_at_parameters()

    def _on_step(self) -> bool:
        if self._looks_at_nan:
            observations = self.locals["new_obs"]
            # Not isinstance(…, Mapping), which takes as long as everything else here. A DummyVecEnv gives OrderedDicts
            if isinstance(observations, dict) or not is_finite(observations):
                self._end_if_broken(broken_observations(observations))
            if not self._is_on_policy:
                self._end_if_broken(broken_rewards(self.locals["rewards"], self.model.n_envs))
        return True

    def _on_rollout_end(self) -> None:
        # Rewards of a rollout do no harm before its update
        if self._looks_at_nan and isinstance(self.model, OnPolicyAlgorithm):
            normalize = self.model.get_vec_normalize_env()
            # VecNormalize spreads a broken reward to all environments
            n_envs = self.model.n_envs if normalize is None or not normalize.norm_reward else 0
            self._end_if_broken(broken_rewards(self.model.rollout_buffer.rewards, n_envs))

    def _on_training_end(self) -> None:
        if self._looks_at_nan:
            self._look_at_parameters()

    def _look_at_parameters(self) -> None:
        self._end_if_broken(find_broken_parameters(self.model))

    def _end_if_broken(self, broken: list[NonFinite]) -> None:
        engine = self._engine
        if not broken:
            return
        known = {fault.metric for fault in engine.context.faults}
        if all(fault.metric in known for fault in broken):
            return  # already reported; the first one is the cause
        engine.context.faults += broken
        step = self.model.num_timesteps
        dump_row(self.logger, step)
        if self.options.on_nan == "raise":
            what = ", ".join(fault.what for fault in broken)
            error = TrainingDiverged(f"After {step:,} steps there is NaN or Inf in {what}. {engine.counts[NAN].advice}")
            self.run.end(error)
            raise error

    def _check_row(self, step: int, values: Mapping[str, Any]) -> dict[str, float]:
        engine = self._engine
        fired = engine.check(step, scalars(values))
        self._n_rows += 1
        self._total += len(fired)
        added: dict[str, float] = {f"alert/{rule_id}": 0 for rule_id in engine.checked if engine.counts[rule_id].count}
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
            self._tell_missing()
        return added

    def _announce(self, alert: Alert, step: int) -> None:
        text = f"{alert.text}. {alert.advice}" if alert.advice else f"{alert.text}."
        self.say(f"Alert {alert.id} after {step:,} steps, {alert.title}: {text}")
        self.run.emit("alert", alert.id, alert.title, text, alert.severity)
        self._write_counts()

    def _write_counts(self) -> None:
        folder = self._given_folder or self.run.folder
        if folder is not None:
            with tolerate_full_disk(folder):
                write_json(folder / ALERTS_FILE, [asdict(count) for count in self.summary()])

    def _tell_missing(self) -> None:
        """A rule whose metric never appears can't fire, and its author would believe that all is well."""
        self._told_missing, known = True, self._engine.context.known
        for rule in self.options.added:
            metric = rule.metrics[0]
            if metric not in known:
                warnings.warn(
                    f"alerts: add: {rule.id}: no row has had the metric {metric!r} so far: {nearest(metric, known)}",
                    stacklevel=2,
                )

    def summary(self) -> list[AlertCount]:
        """Alerts that have fired since the start of training, sorted by id."""
        if self._run is None:
            return []
        return [replace(count) for _, count in sorted(self._engine.counts.items()) if count.count]

    def _finish(self) -> None:
        if self._parameter_watch is not None:
            self._parameter_watch.close()
            self._parameter_watch = None
        if not self._told_missing:
            self._tell_missing()
        self._write_counts()


def _print_summary(counts: list[AlertCount]) -> None:
    console = get_console()
    if not counts:
        console.print("No alerts.")
        return
    table = Table(title="Alerts of this training", title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("alert", no_wrap=True, style="bold")
    table.add_column("rows", justify="right")
    table.add_column("share", justify="right")
    table.add_column("steps", no_wrap=True)
    table.add_column("what to tune", overflow="fold")
    for count in counts:
        first, last = f"{count.first_step:,}", f"{count.last_step:,}"
        steps = first if first == last else f"{first} to {last}"
        # Rich would read brackets as markup
        table.add_row(count.id, str(count.count), f"{count.share:.0%}", steps, count.advice.replace("[", r"\["))
    console.print(table)
