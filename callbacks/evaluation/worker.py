"""Evaluates snapshots in a separate process while training continues, and in the training's process if that fails."""

import atexit
import warnings
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.utils import set_random_seed
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.random_state import RandomState
from sb3_ext.common.stateful import Stateful
from sb3_ext.runs.agents.env_recipe import EnvRecipe
from sb3_ext.runs.agents.snapshot import AgentSnapshot, PackedSnapshot, ScoreAgent, SnapshotFolder
from sb3_ext.runs.play.scoring import Scores
from sb3_ext.runs.processes.jobs import JobQueue
from sb3_ext.vec_env.state import EnvStates, restore_envs, save_envs
from sb3_ext.wrappers.training_link import link_to_training

__all__ = ["EvaluationWorker"]

#: Seconds that training may wait for an evaluation before it says so
_SHORT_WAIT = 5.0
#: Seconds that training waits for an evaluation, plus three times the duration of the last one
_PATIENCE = 60.0
#: Bytes of a snapshot that is kept in a state
_MAX_PACKED = 1 << 26
#: Environments and random numbers after an evaluation: the next one continues there
_Position = tuple[EnvStates, RandomState]


class EvaluationWorker(Stateful):
    """
    Starts a process that evaluates one snapshot at a time. When it can't be started, fails or takes too long, a warning
    says why, and nothing is lost: its snapshot is evaluated here, in ``env``.

    :param make_env: makes environments in the other process; ``None`` makes them from the spec of ``env``
    :param folder: folder of the models that a snapshot may become
    """

    def __init__(
        self,
        model: BaseAlgorithm,
        env: VecEnv,
        make_env: Callable[[], VecEnv] | None,
        score_agent: ScoreAgent,
        folder: str | None = None,
    ) -> None:
        self._algorithm = type(model)
        self._env = env
        self._score_agent = score_agent
        self._snapshots = SnapshotFolder(folder)
        #: The snapshot that is being evaluated
        self.pending: AgentSnapshot | None = None
        #: Seconds to wait for the process before doing without it
        self.patience = _PATIENCE
        #: Process id; ``None`` when there is no process
        self.pid: int | None = None
        self._packed: PackedSnapshot | None = None
        self._position: _Position | None = None
        self._is_resumed = False
        self._jobs = JobQueue(name="evaluation process")
        self._is_behind = False
        try:
            make_env = make_env or EnvRecipe.of(env, env.num_envs, model.seed)
            gamma = getattr(model, "gamma", None)
            self._jobs.submit("", _prepare, type(model), make_env, score_agent, model.seed, gamma)
            self.pid = self._jobs.start().pid
        # Pickling runs code of the environments, which may raise anything
        except Exception as error:
            self._do_without(f"The evaluation process can't be started: {type(error).__name__}: {error}")

    @property
    def is_running(self) -> bool:
        """Whether there is a process."""
        return self.pid is not None

    @property
    def has_result(self) -> bool:
        """Whether :meth:`collect` need not wait; takes less than a microsecond."""
        return self.pending is not None and (self.pid is None or self._jobs.has_outcome)

    def request(self, model: BaseAlgorithm, stage: int | None) -> None:
        """Evaluate the model as it is now, one snapshot at a time, in a stage of the curriculum if there is one."""
        assert self.is_running and self.pending is None
        self._submit(self._snapshots.take(model, stage))

    def _submit(self, snapshot: AgentSnapshot) -> None:
        self.pending, self._packed = snapshot, None
        if self.is_running:
            self._jobs.submit("evaluation", _score, snapshot, self._position if self._is_resumed else None)
            self._is_resumed = False

    def state(self) -> dict[str, Any]:
        """What is being evaluated, too."""
        if self.pending is not None and self._packed is None and self.pending.model.stat().st_size <= _MAX_PACKED:
            self._packed = self.pending.pack()
        return {"position": self._position, "pending": self._packed}

    def restore(self, state: Mapping[str, Any]) -> None:
        self._position, self._is_resumed = state["position"], True
        if state["pending"] is not None:
            self._submit(self._snapshots.unpack(state["pending"]))

    def collect(self, timeout: float | None = None) -> tuple[AgentSnapshot, Scores]:
        """
        :return: the snapshot that was evaluated, and its scores
        :raises TimeoutError: when they are not there by then
        """
        assert self.pending is not None
        snapshot = self.pending
        scores: Scores | None = None
        if self.is_running:
            outcome = self._jobs.next_outcome(timeout)
            if outcome is None:
                raise TimeoutError
            if outcome.error is None:
                scores, self._position = outcome.result
            else:
                self._do_without(f"An evaluation failed: {outcome.error}\n{outcome.details}".rstrip())
        if scores is None:
            scores = snapshot.score(self._algorithm, self._env, self._score_agent)
        self.pending = self._packed = None
        self.patience = _PATIENCE + 3 * scores.seconds
        return snapshot, scores

    def catch_up(self) -> tuple[AgentSnapshot, Scores]:
        """As :meth:`collect_anyway`, when the next evaluation is due; a noticeable wait is announced."""
        try:
            return self.collect(_SHORT_WAIT)
        except TimeoutError:
            self.warn_behind("Training waits for it", "set busy: skip")
            return self.collect_anyway()

    def collect_anyway(self) -> tuple[AgentSnapshot, Scores]:
        """As :meth:`collect`; when that takes longer than :attr:`patience`, evaluate here from now on."""
        assert self.pending is not None
        try:
            return self.collect(self.patience)
        except TimeoutError:
            self._do_without(
                f"The evaluation process did not finish step {self.pending.step:,} within {self.patience:.0f} s."
            )
            return self.collect()

    def warn_behind(self, action: str, alternative: str) -> None:
        """Say once that the process falls behind, what is done about it, and what to set instead."""
        assert self.pending is not None
        if self._is_behind:
            return
        self._is_behind = True
        warnings.warn(
            f"The evaluation of step {self.pending.step:,} is still running, and the next one is due. {action}, now "
            "and whenever it happens again. Evaluate less often (every), play fewer episodes, leave a core to the "
            f"evaluation process, or {alternative}.",
            stacklevel=2,
        )

    def close(self) -> None:
        """End the process, whatever it is doing. This also happens at exit and when this object is garbage."""
        self._jobs.close()
        self.pid = self.pending = None
        self._snapshots.close()

    def _do_without(self, reason: str) -> None:
        self._jobs.close()
        self.pid = None
        warnings.warn(f"{reason}\nEvaluation continues in the training's process, which waits for it.", stacklevel=3)


#: In the process: the environments, which are made and seeded once for all snapshots, and who plays there
_prepared: tuple[type[BaseAlgorithm], VecEnv, ScoreAgent]


def _prepare(
    algorithm: type[BaseAlgorithm],
    make_env: Callable[[], VecEnv],
    score_agent: ScoreAgent,
    seed: int | None,
    gamma: float | None,
) -> None:
    global _prepared
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the training's own environments warn too
        env = make_env()
    atexit.register(env.close)
    link_to_training(env, gamma)
    if seed is not None:
        set_random_seed(seed)
    _prepared = algorithm, env, score_agent


def _score(snapshot: AgentSnapshot, position: _Position | None) -> tuple[Scores, _Position]:
    env = _prepared[1]
    if position is not None:
        with suppress(ValueError):  # other environments than before
            restore_envs(env, position[0])
        position[1].restore()
    scores = snapshot.score(*_prepared)
    return scores, (save_envs(env), RandomState.now())
