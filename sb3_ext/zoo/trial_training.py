"""A training without a run folder, for studies: its curve of evaluations is all that stays of it."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

__all__ = ["Curve", "Point", "TrialTraining", "train_trial"]


@dataclass(frozen=True)
class TrialTraining:
    """
    What to train; it can be pickled and sent to another machine.

    :param section: a whole section as in a hyperparameter file, values as in YAML
    :param timesteps: budget, instead of the section's
    :param evaluations: how many times to evaluate, evenly spaced; the last one at the end
    :param episodes: of each evaluation
    :param threads: of torch
    :param gym_packages: modules to import first
    :param max_seconds: end the training after this time, counted without evaluations
    """

    algo: str
    env_id: str
    section: dict[str, Any]
    seed: int
    timesteps: int
    evaluations: int = 10
    episodes: int = 5
    threads: int = 1
    gym_packages: tuple[str, ...] = ()
    max_seconds: float | None = None


class Point(NamedTuple):
    """
    An evaluation.

    :param step: timesteps of all environments together
    :param score: mean of the environment's own rewards, not of shaped or normalised ones
    :param seconds: of training until then, without evaluations
    """

    step: int
    score: float
    seconds: float


class Curve(NamedTuple):
    """
    :param steps: timesteps that were trained
    :param seconds: of training and evaluations
    :param is_stopped: whether it was stopped before its end, by a pruner or a limit of time
    :param error: why the training failed (a diverged policy, say); points until then count
    """

    points: tuple[Point, ...]
    steps: int
    seconds: float
    is_stopped: bool = False
    error: str | None = None


def train_trial(training: TrialTraining, on_point: Callable[[Point], bool]) -> Curve:
    """
    Train in this process, with the same parameters at the end as ``rl_zoo3.train`` with this section and seed.

    :param on_point: called after each evaluation; whether to go on
    :raises UsageError: when the section can't be trained at all
    """
    raise NotImplementedError
