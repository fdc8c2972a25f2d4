"""Evaluation beside training: asks a process, and does the work itself when that fails."""

from __future__ import annotations

import warnings
from collections.abc import Callable

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.callbacks.evaluation.process import EvaluationProcess, EvaluationProcessFailed, EvaluationSetup
from sb3_ext.runs.agents.env_recipe import EnvRecipe
from sb3_ext.runs.agents.snapshot import AgentSnapshot, ScoreAgent
from sb3_ext.runs.play.scoring import Scores

__all__ = ["BackgroundEvaluation"]

#: Seconds that training may wait for an evaluation without a word
_SHORT_WAIT = 5.0
#: Seconds that it waits at most, beside three times what the last evaluation took
_PATIENCE = 60.0


class BackgroundEvaluation:
    """
    Starts a process, see :class:`EvaluationProcess`. When that can't be started or fails, a warning tells why, and
    nothing is lost: what it was to evaluate is evaluated here.

    :param model: the agent that is trained
    :param env: environments of this process, in which it is evaluated then
    :param make_env: makes such environments in the process; ``None`` makes them from the spec of ``env``
    :param score_agent: plays an agent in environments
    """

    def __init__(
        self, model: BaseAlgorithm, env: VecEnv, make_env: Callable[[], VecEnv] | None, score_agent: ScoreAgent
    ) -> None:
        self._algorithm = type(model)
        self._env = env
        self._score_agent = score_agent
        self._process: EvaluationProcess | None = None
        #: What is being evaluated
        self.pending: AgentSnapshot | None = None
        #: Seconds after which a process that is waited for is done without
        self.patience = _PATIENCE
        self._is_behind = False
        try:
            make_env = make_env or EnvRecipe.of(env, env.num_envs, model.seed)
            gamma = getattr(model, "gamma", None)
            self._process = EvaluationProcess(EvaluationSetup(make_env, type(model), score_agent, model.seed, gamma))
        except (EvaluationProcessFailed, ValueError) as error:
            _warn(error)

    @property
    def works(self) -> bool:
        """Whether there is a process."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """The number of the process in the system."""
        return None if self._process is None else self._process.pid

    def request(self, snapshot: AgentSnapshot) -> None:
        """
        :param snapshot: to evaluate; one at a time
        """
        assert self._process is not None and self.pending is None
        self._process.request(snapshot)
        self.pending = snapshot

    def has_answer(self) -> bool:
        """:return: whether :meth:`collect` has something to give and need not wait"""
        return self.pending is not None and (self._process is None or self._process.has_answer())

    def collect(self, timeout: float | None = None) -> tuple[AgentSnapshot, Scores]:
        """
        :param timeout: seconds to wait; ``None`` for ever
        :return: what was evaluated, and its scores
        :raises TimeoutError: when they are not there by then
        """
        assert self.pending is not None
        snapshot = self.pending
        scores = None
        if self._process is not None:
            try:
                scores = self._process.answer(timeout)
            except EvaluationProcessFailed as error:
                _warn(error)
                self._end_process()
        if scores is None:
            scores = snapshot.score(self._algorithm, self._env, self._score_agent)
        self.pending = None
        self.patience = _PATIENCE + 3 * scores.seconds
        return snapshot, scores

    def catch_up(self) -> tuple[AgentSnapshot, Scores]:
        """As :meth:`collect_anyway`, when the next evaluation is due; a wait that can be felt is announced."""
        try:
            return self.collect(_SHORT_WAIT)
        except TimeoutError:
            self.warn_behind("Training waits for it", "set busy: skip")
            return self.collect_anyway()

    def collect_anyway(self) -> tuple[AgentSnapshot, Scores]:
        """As :meth:`collect`, but evaluate here, now and from now on, when that takes longer than :attr:`patience`."""
        assert self.pending is not None
        try:
            return self.collect(self.patience)
        except TimeoutError:
            _warn(f"The evaluation process did not finish step {self.pending.step:,} within {self.patience:.0f} s.")
            self._end_process()
            return self.collect()

    def warn_behind(self, what: str, otherwise: str) -> None:
        """
        Say once that the process falls behind.

        :param what: is done about it
        :param otherwise: what to set to have something else done
        """
        assert self.pending is not None
        if self._is_behind:
            return
        self._is_behind = True
        warnings.warn(
            f"The evaluation of step {self.pending.step:,} is still running, and the next one is due. {what}, now and "
            "when it happens again. Evaluate less often (every), play fewer episodes, leave a core to the evaluation "
            f"process, or {otherwise}.",
            stacklevel=2,
        )

    def close(self) -> None:
        """End the process, whatever it is doing."""
        self._end_process()
        if self.pending is not None:
            self.pending.discard()
            self.pending = None

    def _end_process(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


def _warn(error: Exception | str) -> None:
    warnings.warn(f"{error}\nEvaluation goes on in the process of the training, which waits for it.", stacklevel=3)
