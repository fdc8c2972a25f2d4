"""A training without a run folder, for studies: its curve of evaluations is all that stays of it."""

import contextlib
import gc
import os
import time
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from sb3_ext.common.usage_error import UsageError

__all__ = ["Curve", "Point", "TrialTraining", "train_trial"]

#: Characters of an error that are kept
_MAX_ERROR = 300
#: Warnings that were shown: thousands of trainings would repeat them
_shown: set[str] = set()


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
    :param log_folder: where the run is that ``init_from`` names
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
    log_folder: str = "logs"


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
    Train in this process, with the same parameters at the end as ``rl_zoo3.train`` with this section and seed. Where
    RL Zoo evaluates with sampled actions (Atari, MiniGrid), that is ``rl_zoo3.train --eval-freq -1``.

    :param on_point: called after each evaluation; whether to go on
    :raises UsageError: when the section can't be trained at all
    """
    start, error = time.perf_counter(), None
    with _quietly(training.threads):
        _import_packages(training.gym_packages)
        from stable_baselines3.common.utils import set_random_seed

        from sb3_ext.zoo.models import check_names
        from sb3_ext.zoo.trial_manager import TrialManager

        check_names(training.algo, training.env_id)
        set_random_seed(training.seed)
        manager, model = TrialManager(training, on_point), None
        try:
            model, _ = manager.setup_experiment()
            manager.learn(model)
        except UsageError:
            raise
        # NaN, a replay buffer that does not fit into memory, a bug in the environment: the study goes on
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}".partition("\n")[0][:_MAX_ERROR]
        finally:
            manager.close()
        evaluation = getattr(manager, "evaluation", None)
        points, is_stopped = ((), False) if evaluation is None else (tuple(evaluation.points), evaluation.is_stopped)
        steps = 0 if model is None else model.num_timesteps
    # Model, environments and callbacks know each other. A replay buffer must not stay until Python looks for cycles
    del manager, model, evaluation
    gc.collect()
    return Curve(points, steps, time.perf_counter() - start, is_stopped, error)


def _import_packages(names: Iterable[str]) -> None:
    for name in names:
        try:
            import_module(name)
        except ImportError as error:
            raise UsageError(f"--gym-packages {name}: {error}") from error


@contextlib.contextmanager
def _quietly(threads: int) -> Iterator[None]:
    """Without output, and with each warning once."""
    import torch as th

    def show_once(message: Warning | str, *details: Any, **more: Any) -> None:
        if str(message) not in _shown:
            _shown.add(str(message))
            show(message, *details, **more)

    threads_before = th.get_num_threads()
    with (
        open(os.devnull, "w", encoding="utf-8") as nowhere,
        contextlib.redirect_stdout(nowhere),
        warnings.catch_warnings(),
    ):
        show, warnings.showwarning = warnings.showwarning, show_once
        th.set_num_threads(threads)
        try:
            yield
        finally:
            th.set_num_threads(threads_before)
