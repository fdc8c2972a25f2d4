"""What is shown of a study while it runs."""

from typing import Any, NamedTuple

__all__ = ["BestRow", "RunningRow", "StudyView"]


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


class StudyView(NamedTuple):
    """
    :param title: environment, algorithm and study
    :param phase: ``search``, ``finalists`` or ``fresh seeds``
    :param counts: trials by state
    :param total: trials or trainings of this phase; ``None`` if only time limits them
    :param elapsed: seconds of this phase
    :param remaining: seconds, estimated; ``None`` if unknown
    :param best: the best trials so far, best first
    """

    title: str
    phase: str
    counts: dict[str, int]
    total: int | None
    elapsed: float
    remaining: float | None
    running: tuple[RunningRow, ...]
    best: tuple[BestRow, ...]
