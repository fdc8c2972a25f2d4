"""What is shown of a study while it runs."""

from typing import Any, NamedTuple

__all__ = ["BestRow", "FinishedRow", "RunningRow", "StudyView"]


class RunningRow(NamedTuple):
    """
    A trial that is trained now.

    :param seed: number of its seed, from 1
    :param score: of the latest evaluation; ``None`` before the first
    """

    number: int
    seed: int
    n_seeds: int
    step: int
    timesteps: int
    score: float | None
    proposed_by: str


class BestRow(NamedTuple):
    """:param changes: hyperparameters that differ from the start, with their values"""

    number: int
    score: float
    proposed_by: str
    changes: dict[str, Any]


class FinishedRow(NamedTuple):
    """
    A line of the log, where there is no terminal.

    :param name: ``trial 12``, or ``trial 7, fresh seed 3``
    :param state: ``complete``, ``pruned`` or ``failed``
    :param score: of a pruned trial: its latest
    """

    name: str
    state: str
    score: float | None


class StudyView(NamedTuple):
    """
    :param title: environment, algorithm and study
    :param phase: ``search``, ``finalists`` or ``fresh seeds``
    :param counts: trials by state
    :param total: trials or trainings of this phase; ``None`` if only time limits them
    :param elapsed: seconds of this phase
    :param remaining: seconds, estimated; ``None`` if unknown
    :param best: the best trials so far, best first
    :param finished: in this phase since this process started, oldest first; each is written once
    :param done: of ``total``; default: the trials that are complete, pruned or failed
    """

    title: str
    phase: str
    counts: dict[str, int]
    total: int | None
    elapsed: float
    remaining: float | None
    running: tuple[RunningRow, ...]
    best: tuple[BestRow, ...]
    finished: tuple[FinishedRow, ...] = ()
    done: int | None = None
