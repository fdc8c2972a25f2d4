"""A process that evaluates snapshots of an agent while its training goes on, seen from both of its sides."""

from __future__ import annotations

import atexit
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.runs.agents.snapshot import AgentSnapshot, ScoreAgent
from sb3_ext.runs.play.scoring import Scores
from sb3_ext.runs.processes.jobs import BackgroundProcess
from sb3_ext.wrappers.training_link import link_to_training

__all__ = ["EvaluationProcess", "EvaluationProcessFailed", "EvaluationSetup"]


class EvaluationProcessFailed(RuntimeError):
    """The process can't evaluate; the message tells why, with its traceback."""


@dataclass(frozen=True)
class EvaluationSetup:
    """
    What the process needs to know once.

    :param make_env: makes the evaluation environments; cloudpickle must be able to send it
    :param algorithm: class of the model
    :param score_agent: plays an agent in environments
    :param seed: of random numbers, such as those of actions by chance
    :param gamma: the discount of the algorithm, which some wrappers want to know
    """

    make_env: Callable[[], VecEnv]
    algorithm: type[BaseAlgorithm]
    score_agent: ScoreAgent
    seed: int | None = None
    gamma: float | None = None


class EvaluationProcess:
    """
    Starts the process. It evaluates one snapshot at a time.

    :param setup: what it needs to know
    :raises EvaluationProcessFailed: when it can't be started
    """

    def __init__(self, setup: EvaluationSetup) -> None:
        self._process = BackgroundProcess(name="evaluation process")
        try:
            self._process.submit("", _prepare, setup)
            #: Its number in the system
            self.pid = self._process.start().pid
        except Exception as error:
            raise EvaluationProcessFailed(f"The evaluation process can't be started: {error!r}") from error

    def request(self, snapshot: AgentSnapshot) -> None:
        """
        :param snapshot: what to evaluate; its files must stay until the answer is there
        """
        self._process.submit("evaluation", _score, snapshot)

    def has_answer(self) -> bool:
        """:return: whether :meth:`answer` returns at once; takes less than a microsecond"""
        return self._process.has_outcome

    def answer(self, timeout: float | None = None) -> Scores:
        """
        Wait for the scores of the snapshot that was requested.

        :param timeout: seconds to wait; ``None`` for ever
        :raises TimeoutError: when they are not there by then
        :raises EvaluationProcessFailed: when there will be none
        """
        outcome = self._process.next_outcome(timeout)
        if outcome is None:
            raise TimeoutError
        if outcome.error is not None:
            raise EvaluationProcessFailed(f"An evaluation failed: {outcome.error}\n{outcome.details}".rstrip())
        return outcome.result

    def close(self) -> None:
        """End it, whatever it is doing. This also happens at exit and when this object is garbage."""
        self._process.close()


#: In the process: what it knows, and the environments, which are made once and seeded once for all snapshots
_prepared: tuple[EvaluationSetup, VecEnv]


def _prepare(setup: EvaluationSetup) -> None:
    global _prepared
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the training's own environments warn too
        env = setup.make_env()
    atexit.register(env.close)
    link_to_training(env, setup.gamma)
    if setup.seed is not None:
        set_random_seed(setup.seed)
    _prepared = setup, env


def _score(snapshot: AgentSnapshot) -> Scores:
    setup, env = _prepared
    return snapshot.score(setup.algorithm, env, setup.score_agent)
