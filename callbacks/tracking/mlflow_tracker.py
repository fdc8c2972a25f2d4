"""Runs on MLflow: in a database on this machine, or on a server.

MLflow's client waits until each call is answered, so rows are collected and sent together every few seconds.
"""

from __future__ import annotations

import os
import posixpath
import re
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from stable_baselines3.common.logger import Figure, Image, KVWriter

from sb3_ext.callbacks.tracking.dashboard import Dashboard
from sb3_ext.callbacks.tracking.options import TrackingOptions
from sb3_ext.callbacks.tracking.tracker import EVAL, Axis, VideoFile, end_of, pixels_of, tolerated
from sb3_ext.common.clean_text import mask_passwords
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.facts import RunFacts
from sb3_ext.runs.rows import scalars

if TYPE_CHECKING:
    from mlflow import MlflowClient
    from mlflow.entities import Metric, Run

__all__ = ["MlflowTracker"]

#: Seconds between two times of sending; longer if it takes long, so that it takes 5 % of the time at most
_SEND_EVERY, _MAX_SHARE = 5.0, 0.05
#: MLflow's limits of a call, of a name and of a text
_MAX_METRICS, _MAX_PARAMS, _MAX_NAME, _MAX_TEXT = 1000, 100, 250, 6000
#: Numbers that wait for a server that does not answer
_MAX_WAITING = 200_000
_NOT_IN_NAMES = re.compile(r"[^\w./ -]")


class MlflowTracker:
    """If the program has started a run (``mlflow.start_run``), it continues that run and ends it."""

    title: ClassVar[str] = "MLflow"
    key: ClassVar[str] = "mlflow"

    def __init__(self, options: TrackingOptions) -> None:
        if find_spec("mlflow") is None:
            raise UsageError("tracking: MLflow is not installed. To install it: pip install 'sb3-ext[mlflow]'")
        self._options = options
        self.axis = Axis()
        self.reads_tensorboard = False
        self._run_id, self._is_given = "", False
        self._waiting: list[Metric] = []
        self._due = 0.0
        self._last_time = 0

    def start(self, facts: RunFacts, outputs: Sequence[KVWriter], continued: str | None) -> dict[str, Any]:
        import mlflow
        from sqlalchemy.exc import SQLAlchemyError

        given = mlflow.active_run()
        self.axis, self._is_given = Axis.of(facts), given is not None
        uri = None if given is not None else self._options.uri or os.environ.get("MLFLOW_TRACKING_URI")
        try:
            self._client: MlflowClient = mlflow.MlflowClient(uri)
            run = given if given is not None else self._new_run(facts, continued)
            self._run_id = run.info.run_id
            self.log_config(facts.config())
        except (mlflow.MlflowException, SQLAlchemyError, OSError) as error:
            hint = "Check `uri` and `experiment` under `tracking`, or MLFLOW_TRACKING_URI."
            raise UsageError(f"MLflow: {mask_passwords(str(error))}\n{hint}") from error
        if given is not None:
            self._warn_of_unused_options(run)
        self._due = time.monotonic() + _SEND_EVERY
        experiment, is_server = run.info.experiment_id, (uri or "").startswith("http")
        return {
            **{"tracker": self.key, "id": self._run_id, "name": run.info.run_name},
            **{"experiment": experiment, "uri": None if uri is None else mask_passwords(uri)},
            "url": mask_passwords(f"{uri}/#/experiments/{experiment}/runs/{self._run_id}") if is_server else None,
        }

    def _new_run(self, facts: RunFacts, continued: str | None) -> Run:
        from mlflow import MlflowException
        from mlflow.tracking.context.registry import resolve_tags

        run_id = os.environ.get("MLFLOW_RUN_ID") or continued
        if run_id is not None:
            try:
                self._client.update_run(run_id, status="RUNNING")
                return self._client.get_run(run_id)
            except MlflowException:
                if run_id != continued:
                    raise  # else it was deleted, or is in another database
        options = self._options
        texts = {"mlflow.note.content": options.notes, "tags": ", ".join(options.tags) or None}
        tags = {**resolve_tags(), **{name: text for name, text in texts.items() if text is not None}}
        return self._client.create_run(
            self._experiment_id(), run_name=options.name or f"{facts.algo}-{facts.id}", tags=tags
        )

    def _experiment_id(self) -> str:
        from mlflow import MlflowException

        name = self._options.chosen_experiment
        known = self._client.get_experiment_by_name(name)
        if known is None:
            try:
                return self._client.create_experiment(name)
            except MlflowException:
                known = self._client.get_experiment_by_name(name)
                if known is None:
                    raise  # else another training has created it meanwhile
        return known.experiment_id

    def _warn_of_unused_options(self, run: Run) -> None:
        given = {name: getattr(self._options, name) for name in ("experiment", "uri", "name", "notes")}
        unused = [name for name, value in given.items() if value is not None]
        if unused:
            warnings.warn(
                f"tracking: {', '.join(unused)}: not used, because the run {run.info.run_name!r} was already active.",
                stacklevel=2,
            )

    def log_config(self, config: Mapping[str, Any]) -> None:
        from mlflow.entities import Param, RunTag

        known = self._client.get_run(self._run_id).data.params
        texts = {_name(name): str(value)[:_MAX_TEXT] for name, value in _flat(config)}
        params = [Param(name, text) for name, text in texts.items() if name not in known]
        # MLflow's parameters can't change, but a resumed training may have others
        changed = [RunTag(f"changed.{name}", text) for name, text in texts.items() if known.get(name, text) != text]
        for start in range(0, max(len(params), len(changed)), _MAX_PARAMS):
            part = slice(start, start + _MAX_PARAMS)
            self._client.log_batch(self._run_id, params=params[part], tags=changed[part])

    def log(self, timesteps: int, values: Mapping[str, Any]) -> None:
        from mlflow.entities import Metric

        numbers = scalars(values)
        # MLflow tells points of one step apart by their milliseconds
        self._last_time = now = max(int(1000 * time.time()), self._last_time + 1)
        at = self.axis.at(timesteps)
        of_evaluation = int(numbers.get(self.axis.eval_metric, at))
        for name, value in values.items():
            step = of_evaluation if name.startswith(EVAL) else at
            if name in numbers:
                self._waiting.append(Metric(_name(name), numbers[name], now, step))
            else:
                with tolerated(self.title):
                    self._log_picture(_name(name), value, step)
        if time.monotonic() >= self._due:
            self._send()

    def _log_picture(self, name: str, value: Any, step: int) -> None:
        """MLflow has no histograms and no texts."""
        if isinstance(value, VideoFile):
            self._client.log_artifact(self._run_id, str(value.path), "video")
        elif isinstance(value, Figure):
            self._client.log_figure(self._run_id, value.figure, f"figures/{name}-step-{step}.png")
        elif isinstance(value, Image) and not isinstance(value.image, str):
            self._client.log_image(self._run_id, pixels_of(value), key=name, step=step)

    def _send(self) -> None:
        """What can't be sent waits for the next time."""
        from mlflow import MlflowException

        started = time.monotonic()
        with tolerated(self.title):
            while self._waiting:
                try:
                    self._client.log_batch(self._run_id, metrics=self._waiting[:_MAX_METRICS])
                except MlflowException as error:
                    if error.error_code != "INVALID_PARAMETER_VALUE":
                        raise
                    warnings.warn(f"MLflow does not take some metrics: {error}", stacklevel=2)  # and never will
                del self._waiting[:_MAX_METRICS]
        del self._waiting[:-_MAX_WAITING]
        now = time.monotonic()
        self._due = now + max(_SEND_EVERY, (now - started) / _MAX_SHARE)

    def log_files(self, name: str, kind: str, folder: Path, metadata: Mapping[str, Any]) -> None:
        self._client.log_artifacts(self._run_id, str(folder), name)
        self._client.log_dict(self._run_id, dict(metadata), f"{name}/metadata.json")

    def alert(self, rule: str, title: str, text: str, severity: str) -> None:
        self._client.set_tag(self._run_id, f"alert.{_name(rule)}", f"{severity}: {title}. {text}"[:_MAX_TEXT])

    def show(self, layout: Dashboard) -> None:
        """MLflow has no layouts."""

    def finish(self, error: BaseException | None) -> None:
        import mlflow

        status = "KILLED" if isinstance(error, KeyboardInterrupt) else "FINISHED" if error is None else "FAILED"
        self._send()
        with tolerated(self.title):
            self._client.set_tag(self._run_id, "end", end_of(error))
            active = mlflow.active_run()
            if self._is_given and active is not None and active.info.run_id == self._run_id:
                mlflow.end_run(status)
            else:
                self._client.set_terminated(self._run_id, status)


def _name(name: str) -> str:
    """Without what MLflow does not accept: it takes names for paths."""
    return posixpath.normpath("/" + _NOT_IN_NAMES.sub("_", name)).strip("/")[:_MAX_NAME]


def _flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{name}.")
        else:
            yield f"{above}{name}", value
