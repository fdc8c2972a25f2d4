"""The ``ext:`` key of a hyperparameter file: options of this package besides those of the algorithm."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import PlainValidator, model_validator

from sb3_ext.callbacks.alerts.options import AlertsOptions
from sb3_ext.callbacks.checkpoints.options import CheckpointsOptions
from sb3_ext.callbacks.evaluation.options import EvaluationOptions
from sb3_ext.callbacks.metrics.callback import MetricsOptions
from sb3_ext.callbacks.report import ReportOptions
from sb3_ext.callbacks.table.callback import TableOptions
from sb3_ext.callbacks.tracking.options import TrackingField, TrackingOptions
from sb3_ext.common.options import Items, Number, Options, Switch, Text, read_options
from sb3_ext.common.usage_error import UsageError
from sb3_ext.vec_env.mixed import Members
from sb3_ext.wrappers.curriculum.options import CurriculumOptions
from sb3_ext.zoo.resume import ResumeField

__all__ = ["ExtOptions", "read_ext", "with_defaults"]


def _check_threads(raw: Any) -> int | str:
    if raw == "auto" or (type(raw) is int and raw >= 1):
        return raw
    raise ValueError("must be 'auto' or a whole number, at least 1")


class ExtOptions(Options):
    """
    :param threshold: mean raw reward at which the environment counts as solved, for stopping, metrics, alerts and the
        report; ``None`` for the one in the environment's spec
    :param axis: unit of ``n_timesteps``, of evaluation's ``every`` and ``warmup`` and of checkpoints' ``every`` in the
        file, and the x axis of plots and of W&B: ``timesteps`` of all environments together, or ``vec_steps``, each one
        step in every environment. The command line's numbers are timesteps
    :param native: use an environment's native vectorised version if it has one: Atari games with the standard
        wrappers, CartPole-v1
    :param exact_pixels: native Atari games show the pixels that SB3's wrappers make. Without, the emulators' threads
        scale their frames down in grey, which takes a fifth less time
    :param vec_env: how other environments run in parallel: ``dummy`` (one after the other), ``subproc`` (SB3's, a
        process each), ``multicore`` (shared memory, a process a core), ``envpool`` (in C++, if EnvPool has the id),
        ``make_vec`` (what the id is registered with for ``gymnasium.make_vec``), or ``auto``, which measures
    :param threads: torch's threads: ``auto`` measures; ``--num-threads`` overrides it
    :param stop_signals: signals that end a training as SIGTERM does, such as ``USR1`` before a Slurm job is ended
    :param resume: a run to continue, in its folder: see :class:`~sb3_ext.zoo.resume.ResumeOptions`
    :param init_from: start from the weights of another run, by its name, or of a model's file: what fits is taken
    :param curriculum: stages that training goes through
    :param members: environments that are trained in at once
    :param evaluation: how the agent is evaluated; ``None``: by RL Zoo
    :param checkpoints: which models are kept, and what is kept with them
    :param metrics: more numbers about a training
    :param alerts: warnings when a training goes wrong
    :param table: how the rows are shown; ``None``: in SB3's table
    :param report: what is written at the end
    :param tracking: how the run is logged to Weights & Biases or MLflow; unset: only with ``--track``
    """

    threshold: Number | None = None
    axis: Literal["timesteps", "vec_steps"] = "timesteps"
    native: bool = True
    exact_pixels: bool = True
    vec_env: Literal["auto", "dummy", "subproc", "multicore", "envpool", "make_vec"] = "auto"
    threads: Annotated[int | str, PlainValidator(_check_threads)] = "auto"
    stop_signals: Items[Literal["USR1", "USR2", "XCPU"]] = ()
    resume: ResumeField = None
    init_from: Text | None = None
    curriculum: CurriculumOptions | None = None
    members: Members = ()
    evaluation: Switch[EvaluationOptions] = None
    checkpoints: Switch[CheckpointsOptions] = None
    metrics: Switch[MetricsOptions] = None
    alerts: Switch[AlertsOptions] = None
    table: Switch[TableOptions] = None
    report: Switch[ReportOptions] = None
    tracking: TrackingField = None

    @model_validator(mode="after")
    def _check_threshold(self) -> ExtOptions:
        for name in type(self).model_fields:
            if getattr(getattr(self, name), "threshold", None) is not None:
                raise ValueError(f"{name}: threshold is for all topics: set ext: {{threshold: …}}")
        return self

    @property
    def topics(self) -> list[Options]:
        """The options that are on and make a callback, in the order of the fields."""
        values = [getattr(self, name) for name in type(self).model_fields]
        return [value for value in values if isinstance(value, Options) and value.callback]

    def in_timesteps(self, n_envs: int) -> ExtOptions:
        """The same options, with numbers of steps in timesteps."""
        if self.axis == "timesteps":
            return self
        changed: dict[str, Options] = {}
        for topic in ("evaluation", "checkpoints"):
            options = getattr(self, topic)
            steps = {name: getattr(options, name, None) for name in ("every", "warmup")}
            scaled = {name: count * n_envs for name, count in steps.items() if count is not None}
            if scaled:
                changed[topic] = options.model_copy(update=scaled)
        return self.model_copy(update=changed)

    def overridden_by(self, flags: Mapping[str, Any]) -> ExtOptions:
        """Without what typed ``flags`` override, see ``train_flags``. RL Zoo's callback has those for evaluation."""
        evaluation, checkpoints, tracking = self.evaluation, self.checkpoints, self.tracking
        if evaluation is not None and "eval_freq" in flags:
            evaluation = evaluation.model_copy(update={"every": None})
        if evaluation is not None and "eval_episodes" in flags:
            evaluation = evaluation.model_copy(update={"episodes": None, "steps": None})
        if evaluation is not None and "n_eval_envs" in flags:
            evaluation = evaluation.model_copy(update={"envs": None})
        if checkpoints is not None and "save_freq" in flags:
            checkpoints = checkpoints.model_copy(update={"every": max(flags["save_freq"], 0) or None})
        if flags.get("track") and "tracking" not in self.model_fields_set:
            tracking = TrackingOptions()
        changed = {"evaluation": evaluation, "checkpoints": checkpoints, "tracking": tracking}
        return self.model_copy(update={**changed, "vec_env": flags.get("vec_env", self.vec_env)})


#: Defaults of our algorithms. Episode tables and videos take seconds at the end of a training, so they are off
OUR_DEFAULTS: dict[str, Any] = {
    **dict.fromkeys(("metrics", "table", "alerts", "evaluation", "report"), True),
    "checkpoints": {"keep": None, "table": False, "video": False},
}


def with_defaults(raw: Any) -> Any:
    """With :data:`OUR_DEFAULTS` for what it does not set."""
    return {**OUR_DEFAULTS, **(raw or {})} if raw is None or isinstance(raw, Mapping) else raw


def read_ext(raw: Any, is_ours: bool = False) -> ExtOptions:
    """
    The value of ``ext`` in a file, ``None`` if it has none. Our algorithms have :data:`OUR_DEFAULTS`.

    :raises UsageError: with a line for each problem
    """
    try:
        return read_options(ExtOptions, with_defaults(raw) if is_ours else raw, "ext")
    except (TypeError, ValueError) as error:
        raise UsageError(str(error)) from None
