"""The ``ext:`` key of a hyperparameter file: what is this plugin's, and not the algorithm's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from sb3_ext.callbacks.alerts.options import AlertsOptions
from sb3_ext.callbacks.checkpoints.options import CheckpointsOptions
from sb3_ext.callbacks.evaluation.options import EvaluationOptions
from sb3_ext.callbacks.metrics.callback import MetricsOptions
from sb3_ext.callbacks.report import ReportOptions
from sb3_ext.callbacks.table.callback import TableOptions
from sb3_ext.callbacks.tracking.options import TrackingOptions
from sb3_ext.common.names import check_choice, check_keywords
from sb3_ext.common.options import read_switch
from sb3_ext.vec_env.mixed import Member, read_members
from sb3_ext.wrappers.curriculum.options import CurriculumOptions, read_curriculum

__all__ = ["ExtOptions", "read_options"]

VEC_ENVS = ("auto", "dummy", "subproc", "multicore")


@dataclass(frozen=True)
class ExtOptions:
    """
    :param native: use an environment's native vectorised version where there is one: Atari games with the standard
        wrappers, CartPole-v1
    :param vec_env: how other environments run in parallel: ``dummy`` (one after the other), ``subproc`` (SB3's, a
        process each), ``multicore`` (shared memory, a process a core), or ``auto``, which measures
    :param threads: torch's threads: ``auto`` measures; ``--num-threads`` goes first
    :param curriculum: stages that training goes through, see ``wrappers/curriculum/options.py``
    :param members: environments that are trained in at once, see ``vec_env/mixed.py``
    :param metrics: more numbers about a training, see ``callbacks/metrics``
    :param table: how they are shown; ``None``: in SB3's table
    :param alerts: what is told when a training goes wrong
    :param evaluation: how the agent is evaluated, within what the command line says; ``None``: by RL Zoo
    :param checkpoints: which models are kept, and what with them
    :param tracking: how the run is on Weights & Biases; ``False``: not at all, ``None``: only with ``--track``
    :param report: what is written at the end
    """

    native: bool = True
    vec_env: str = "auto"
    threads: int | str = "auto"
    curriculum: CurriculumOptions | None = None
    members: tuple[Member, ...] = ()
    metrics: MetricsOptions | None = None
    table: TableOptions | None = None
    alerts: AlertsOptions | None = None
    evaluation: EvaluationOptions | None = None
    checkpoints: CheckpointsOptions | None = None
    tracking: TrackingOptions | bool | None = None
    report: ReportOptions | None = None


_READERS: dict[str, Callable[[Any], Any]] = {
    "curriculum": read_curriculum,
    "members": read_members,
    "metrics": lambda raw: read_switch(MetricsOptions, raw, "metrics"),
    "table": lambda raw: read_switch(TableOptions, raw, "table"),
    "alerts": lambda raw: read_switch(AlertsOptions, raw, "alerts"),
    "evaluation": lambda raw: read_switch(EvaluationOptions, raw, "evaluation"),
    "checkpoints": lambda raw: read_switch(CheckpointsOptions, raw, "checkpoints"),
    "tracking": lambda written: read_switch(TrackingOptions, written, "tracking") or False,
    "report": lambda raw: read_switch(ReportOptions, raw, "report"),
}
#: What trainings of our algorithms have where a file says nothing. Episodes step by step and videos take seconds at the
#: end of a training, and wait to be asked for
OUR_DEFAULTS: dict[str, Any] = {
    "metrics": MetricsOptions(),
    "table": TableOptions(),
    "alerts": AlertsOptions(),
    "evaluation": EvaluationOptions(),
    "checkpoints": CheckpointsOptions(keep=None, table=False, video=False),
    "report": ReportOptions(),
}


def read_options(written: Any, defaults: Mapping[str, Any] | None = None) -> ExtOptions:
    """
    :param written: what the file has under ``ext``; ``None`` when it has nothing
    :param defaults: options that are on where the file says nothing of them
    :raises TypeError: when a key is not known
    :raises ValueError: when a value is not possible
    """
    defaults = defaults or {}
    if written is None:
        return ExtOptions(**defaults)
    if not isinstance(written, Mapping):
        raise ValueError(f"ext: {written!r} must be keys with values, such as ext: {{native: false}}.")
    check_keywords("ext:", written, [field.name for field in fields(ExtOptions)])
    read = {key: _READERS[key](value) if key in _READERS else value for key, value in written.items()}
    options = ExtOptions(**{**defaults, **read})
    if not isinstance(options.native, bool):
        raise ValueError(f"ext: native: {options.native!r} must be true or false.")
    check_choice("ext: vec_env", options.vec_env, VEC_ENVS)
    threads = options.threads
    if threads != "auto" and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
        raise ValueError(f"ext: threads: {threads!r} must be 'auto' or a number from 1 on.")
    return options
