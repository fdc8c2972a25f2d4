"""Continues a training exactly: what its next rollout depends on, captured and restored at the start of a rollout.

SB3's model file has the weights, the optimizer and the counters. A state has the rest: random generators, environments,
the last observations, callbacks, and the lengths of log files. Between rollouts all of these are consistent, so the
parameters after a resume are those of a training that was never interrupted, to the last bit.
"""

from __future__ import annotations

import io
import pickle
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch as th
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.off_policy_algorithm import OffPolicyAlgorithm
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.common.clean_text import say
from sb3_ext.common.model_file import callback_state
from sb3_ext.common.random_state import RandomState
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.bundle import RESUME_FILE, Bundle, find_bundle
from sb3_ext.runs.callback_states import collect_states, restore_states
from sb3_ext.runs.facts import RunFacts
from sb3_ext.runs.files import RUN_FILE
from sb3_ext.runs.rewind import continue_monitor_time, log_positions, rewind_logs
from sb3_ext.runs.run import Run
from sb3_ext.vec_env.state import EnvStates, restore_envs, restore_statistics, save_envs

__all__ = ["StateKeeper", "TrainingState", "next_rollout_ends", "read_state", "resume_model"]

A = TypeVar("A", bound=BaseAlgorithm)

#: At most this share of the time goes into capturing states
_SHARE = 0.01
#: Seconds between writes to disk at the start of a training; later they become rarer
_FIRST_WRITE = 3.0
#: Counters and buffers. A checkpoint that was saved within a rollout has later ones
_COUNTERS = ("num_timesteps", "_episode_num", "_n_updates", "ep_info_buffer", "ep_success_buffer")
#: Where the next rollout starts. SB3 does not save these, or drops them when it loads a model
_POSITION = ("_last_obs", "_last_episode_starts", "_last_original_obs", "_last_lstm_states")
#: gSDE draws these before a rollout starts
_NOISE = ("exploration_mat", "exploration_matrices")


@dataclass
class TrainingState:
    """Can be pickled; see :class:`StateKeeper` for when it is taken."""

    is_at_end: bool
    counters: dict[str, Any]
    position: dict[str, Any]
    noise: dict[str, th.Tensor]
    buffer: Any
    random: RandomState
    n_threads: int
    total_timesteps: int
    seconds: float
    env: EnvStates
    callbacks: list[Any]
    logs: dict[str, Any]

    @classmethod
    def of(cls, run: Run, folder: Path, is_at_end: bool = False) -> TrainingState:
        model, env = run.model, _env_of(run.model)
        distribution = getattr(model.policy, "action_dist", None)
        keep_buffer = getattr(getattr(model, "rollout_buffer", None), "state", None)
        return cls(
            is_at_end=is_at_end,
            counters={name: getattr(model, name) for name in _COUNTERS if hasattr(model, name)},
            position={name: getattr(model, name) for name in _POSITION if hasattr(model, name)},
            noise={name: getattr(distribution, name) for name in _NOISE if hasattr(distribution, name)},
            buffer=None if keep_buffer is None else keep_buffer(),
            random=RandomState.now(),
            n_threads=th.get_num_threads(),
            total_timesteps=model._total_timesteps,
            seconds=run.seconds,
            env=save_envs(env),
            callbacks=collect_states(run.top),
            logs=log_positions(folder, model.num_timesteps),
        )

    def restore(self, run: Run) -> str | None:
        """:return: why episodes start again, if they do"""
        model, env = run.model, _env_of(run.model)
        problem = _restore_envs(env, self.env)
        if problem is None:
            vars(model).update(self.position)
        else:
            continue_monitor_time(env, self.seconds)
            # The wrappers have their statistics again, so the first observations must be computed again
            model._last_obs = env.reset()  # type: ignore[assignment]
            model._last_episode_starts = np.ones((env.num_envs,), dtype=bool)
        if self.buffer is not None and problem is None:
            model.rollout_buffer.restore(self.buffer)  # type: ignore[attr-defined]
        th.set_num_threads(self.n_threads)
        restore_states(run.top, self.callbacks)
        run.seconds += self.seconds
        self.random.restore()
        for name, matrix in self.noise.items():
            setattr(model.policy.action_dist, name, matrix)
        if self.is_at_end and getattr(model, "use_sde", False):
            model.policy.reset_noise(env.num_envs)  # type: ignore[operator]
        return problem


def _env_of(model: BaseAlgorithm) -> VecEnv:
    env = model.get_env()
    assert env is not None, "a model in training has an environment"
    return env


def _restore_envs(env: VecEnv, saved: EnvStates) -> str | None:
    try:
        restore_envs(env, saved)
    except ValueError as error:  # other environments than before, or another number of them
        restore_statistics(env, saved)
        return str(error)
    return saved.problem


def read_state(bundle: Bundle) -> TrainingState | None:
    """:raises UsageError: when the state can't be read"""
    if bundle.state is None:
        return None
    try:
        return pickle.loads(bundle.state)
    # A pickle can fail in any way, such as a class that was renamed since
    except Exception as error:
        raise UsageError(
            f"The state in {bundle.source} can't be read: {type(error).__name__}: {error}.\n"
            "Continue from a checkpoint, without its exact state: `sb3-ext resume RUN@best`."
        ) from None


def resume_model(
    algorithm: type[A], run: Bundle | str | Path, env: VecEnv, *, fresh_optimizer: bool = False, **changed: Any
) -> A:
    """
    Load a model to train it further. When :class:`~sb3_ext.callbacks.Checkpoints` sees it start its first rollout, the
    rest of the state is restored::

        model = resume_model(PPOExt, "run", env)
        model.learn(100_000, callback=Checkpoints("run"), reset_num_timesteps=False)

    :param run: a run folder; what its log files have after the state is removed
    :param env: environments like those that it was trained in
    :param fresh_optimizer: forget the optimizer's momentum
    :param changed: parameters of the algorithm, and arguments of ``load``, that differ from the saved ones
    """
    bundle = run if isinstance(run, Bundle) else find_bundle(Path(run))
    state = read_state(bundle)
    if state is not None and not isinstance(run, Bundle):
        rewind_logs(run, state.logs)
    model = algorithm.load(bundle.open_model(), env=env, **changed)
    if fresh_optimizer:
        model.policy.optimizer.state.clear()
    if isinstance(model, OffPolicyAlgorithm):
        say("The replay buffer is not kept: it fills again before the model is trained.")
        # The first resume remembers it for the next ones
        warmup = callback_state(model).setdefault("warmup", {"steps": model.learning_starts})
        model.learning_starts = bundle.step + warmup["steps"]
    if state is not None:
        vars(model).update(state.counters)
        _to_restore[model] = state
    if not isinstance(run, Bundle) and (Path(run) / RUN_FILE).is_file():
        Run.prepare(model, earlier=RunFacts.read(run))
    return model


#: States of models that were loaded and have not started their first rollout
_to_restore: weakref.WeakKeyDictionary[BaseAlgorithm, TrainingState] = weakref.WeakKeyDictionary()


def next_rollout_ends(model: BaseAlgorithm) -> int:
    """Timesteps after the rollout that is about to start; at the next step for algorithms without rollouts."""
    n_steps = model.n_steps if isinstance(model, OnPolicyAlgorithm) else 1
    return model.num_timesteps + n_steps * model.n_envs


class StateKeeper:
    """
    Keeps the latest state of a run: in memory as often as that is cheap, and on disk every so often. So a training that
    is killed loses about a minute, and one that is interrupted a few seconds.

    :param seconds: between writes to disk, in the long run
    """

    def __init__(self, run: Run, folder: Path, seconds: float) -> None:
        self._run, self._folder, self._seconds = run, folder, seconds
        self._latest: Bundle | None = None
        self._cost = 0.0
        self._captured = self._written = self._started = time.perf_counter()
        self._is_written = False

    def at_rollout_start(self) -> None:
        """Restore the state of a model that was loaded, and capture the present one if it is time."""
        state = _to_restore.pop(self._run.model, None)
        if state is not None:
            self._tell(state, state.restore(self._run))
        now = time.perf_counter()
        is_due = now - self._written >= min(self._seconds, max(_FIRST_WRITE, (now - self._started) / 4))
        # A training that is killed in its first seconds can be resumed too
        must_write = is_due or self._latest is None
        if must_write or now - self._captured >= self._cost / _SHARE:
            self.capture()
        if must_write:
            self.write()

    def capture(self, is_at_end: bool = False) -> Bundle | None:
        """
        The state now; ``None`` if its parameters are not finite, so that a training that failed can be resumed from
        before. Only between rollouts: at the start of one, or at the end of a complete training.
        """
        start = time.perf_counter()
        model, file = self._run.model, io.BytesIO()
        if not all(bool(th.isfinite(parameter).all()) for parameter in model.policy.parameters()):
            return None
        model.save(file)
        state = pickle.dumps(TrainingState.of(self._run, self._folder, is_at_end), pickle.HIGHEST_PROTOCOL)
        self._latest, self._is_written = Bundle(model.num_timesteps, state, file.getvalue()), False
        self._captured = time.perf_counter()
        self._cost = self._captured - start
        return self._latest

    def write(self) -> None:
        """Write the latest state to disk."""
        if self._latest is not None and not self._is_written:
            self._latest.write(self._folder / RESUME_FILE)
            self._is_written = True
            self._written = time.perf_counter()

    def _tell(self, state: TrainingState, problem: str | None) -> None:
        step = state.counters["num_timesteps"]
        if problem is None:
            self._run.say(f"Resumed at step {step:,}: everything continues as if it had not stopped.")
        else:
            self._run.say(f"Resumed at step {step:,}. Episodes start again: {problem}")
