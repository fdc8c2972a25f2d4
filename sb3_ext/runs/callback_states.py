"""The states of a training's callbacks, so that it can be resumed as if it had not been interrupted.

They are collected at the start of a rollout, and restored at the start of the first rollout of the resumed training,
when every callback has had its ``_on_training_start``.

Callbacks of any package take part if they have ``state()``, which returns data that can be pickled, and
``restore(state)``.
"""

from __future__ import annotations

import inspect
import pickle
import time
import warnings
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback, EvalCallback, ProgressBarCallback
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from stable_baselines3.common.on_policy_algorithm import OnPolicyAlgorithm

from sb3_ext.common.stateful import Stateful, put_state, take_state
from sb3_ext.runs.rows import RowStream
from sb3_ext.runs.stock import iter_callbacks
from sb3_ext.vec_env.state import EnvStates, restore_envs, save_envs

__all__ = ["EVALUATION_STATE", "SavedState", "collect_states", "continued_log_interval", "restore_states"]

#: The class of a callback, and its state
SavedState = tuple[str, Any]

EVALUATION_STATE = (
    "last_mean_reward",
    "best_mean_reward",
    "evaluations_timesteps",
    "evaluations_results",
    "evaluations_length",
    "evaluations_successes",
)
#: What others' callbacks, and those derived from them, remember besides ``n_calls``. By name, because only sb3_ext.zoo
#: imports RL Zoo
_STOCK_STATE = {
    "stable_baselines3.common.callbacks.EvalCallback": EVALUATION_STATE,
    "stable_baselines3.common.callbacks.EveryNTimesteps": ("last_time_trigger",),
    "stable_baselines3.common.callbacks.StopTrainingOnMaxEpisodes": ("n_episodes",),
    "stable_baselines3.common.callbacks.StopTrainingOnNoModelImprovement": (
        "last_best_mean_reward",
        "no_improvement_evals",
    ),
    "rl_zoo3.callbacks.RawStatisticsCallback": ("_timesteps_counter",),
}
#: Not callbacks: clock, counters and rows; and environments
_TRAINING, _EVAL_ENV = "training", "evaluation environments"


def collect_states(top: BaseCallback) -> list[SavedState]:
    """
    Call this at the start of a rollout. Takes well under a millisecond, and the result doesn't change afterwards.

    :param top: the callback given to ``learn``
    :return: data for :func:`restore_states` that can be pickled
    """
    rows = RowStream.of(top.logger)
    states: list[SavedState] = [(_TRAINING, {**_counters(top.model, rows), "rows": rows.state()})]
    for callback in iter_callbacks(top):
        name = _name(type(callback))
        state = rows.state_guard.run(name, _state_of, callback)
        if state is not None:
            states.append((name, state))
        if isinstance(callback, EvalCallback):
            # So that later evaluations play the same episodes
            states.append((_EVAL_ENV, rows.state_guard.run(_EVAL_ENV, save_envs, callback.eval_env)))
    return states


def restore_states(top: BaseCallback, states: Sequence[SavedState]) -> None:
    """
    Call this at the start of the first rollout, before any callback's ``on_rollout_start``. Callbacks are matched by
    class and order; a warning names those without a partner.
    """
    waiting: defaultdict[str, list[Any]] = defaultdict(list)
    for name, state in states:
        waiting[name].append(state)
    rows = RowStream.of(top.logger)
    for training in waiting.pop(_TRAINING, []):
        _restore_counters(top.model, rows, training)
        rows.restore(training["rows"])
        _purge_tensorboard(top.logger, top.model.num_timesteps)
    new: list[str] = []
    eval_envs = waiting.pop(_EVAL_ENV, [])
    for callback in iter_callbacks(top):
        if isinstance(callback, EvalCallback) and eval_envs:
            _restore_eval_env(callback, eval_envs.pop(0))
        name = _name(type(callback))
        if waiting[name]:
            _restore(callback, waiting[name].pop(0))
        else:
            new.append(name)
    gone = [name for name, left in waiting.items() for _ in left]
    for names, what in ((new, "starts afresh: the interrupted training did not have it"), (gone, "is not used now")):
        if names:
            warnings.warn(f"Resume: {', '.join(name.rpartition('.')[2] for name in names)} {what}.", stacklevel=2)


def _name(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _state_of(callback: BaseCallback) -> Any:
    if isinstance(callback, Stateful):
        return callback.state()
    state = take_state(callback, _names(callback))
    if isinstance(callback, ProgressBarCallback):
        state["steps"] = callback.pbar.n
    if _takes_part(callback):
        # At once, so that one that can't be pickled is known now
        state["own"] = pickle.dumps(callback.state())  # type: ignore[attr-defined]
    return state


def _restore(callback: BaseCallback, state: Mapping[str, Any]) -> None:
    try:
        if isinstance(callback, Stateful):
            callback.restore(state)
            return
        put_state(callback, _names(callback), state)
        if isinstance(callback, ProgressBarCallback):
            _advance(callback, state["steps"])
        if "own" in state and _takes_part(callback):
            callback.restore(pickle.loads(state["own"]))  # type: ignore[attr-defined]
    # A callback may raise anything, and one that starts afresh is better than no training
    except Exception as error:
        name = type(callback).__name__
        warnings.warn(f"Resume: {name} starts afresh: restore raised {type(error).__name__}: {error}", stacklevel=3)


def _restore_eval_env(callback: EvalCallback, states: EnvStates | None) -> None:
    try:
        if states is not None:
            restore_envs(callback.eval_env, states)
    except ValueError as error:
        warnings.warn(f"Resume: the evaluation environments start afresh: {error}", stacklevel=3)


def _names(callback: BaseCallback) -> list[str]:
    bases = (_name(base) for base in type(callback).__mro__)
    return ["n_calls", *(name for base in bases for name in _STOCK_STATE.get(base, ()))]


def _takes_part(callback: BaseCallback) -> bool:
    return all(callable(getattr(callback, method, None)) for method in ("state", "restore"))


def _advance(callback: ProgressBarCallback, steps: int) -> None:
    """The bar continues, with the total of the whole training."""
    bar: Any = callback.pbar
    bar.total += steps
    bar.n = bar.initial = steps
    if hasattr(bar, "_prog"):  # tqdm.rich has no way to change the total
        bar._prog.update(bar._task_id, total=bar.total, completed=bar.n)


def _counters(model: BaseAlgorithm, rows: RowStream) -> dict[str, Any]:
    return {
        "seconds": (time.time_ns() - model.start_time) / 1e9,
        "started_at": model._num_timesteps_at_start,
        "iterations": _iterations(model, rows),
    }


def _restore_counters(model: BaseAlgorithm, rows: RowStream, state: Mapping[str, Any]) -> None:
    """SB3 logs the time and the speed since the start of ``learn``."""
    model.start_time = time.time_ns() - int(state["seconds"] * 1e9)
    model._num_timesteps_at_start = state["started_at"]
    rows.iterations_before, rows.resumed_at = state["iterations"], model.num_timesteps


def _iterations(model: BaseAlgorithm, rows: RowStream) -> int:
    """Rollouts so far, which SB3 counts in a local variable of ``learn``."""
    if not isinstance(model, OnPolicyAlgorithm):
        return 0
    start = rows.resumed_at or model._num_timesteps_at_start
    return rows.iterations_before + (model.num_timesteps - start) // (model.n_steps * model.n_envs)


def _purge_tensorboard(logger: Logger, step: int) -> None:
    """SB3 has opened a new file: another one tells TensorBoard to forget what earlier ones have after this step."""
    for output_format in logger.output_formats:
        if isinstance(output_format, TensorBoardOutputFormat):
            output_format.writer.close()
            output_format.writer.purge_step = step + 1


class _ShiftedInterval(int):
    """As the right operand of ``iteration % log_interval``, counts the iterations before too."""

    before: int

    def __rmod__(self, iteration: int) -> int:
        return (iteration + self.before) % int(self)


def continued_log_interval(model: BaseAlgorithm, states: Sequence[SavedState], log_interval: int | None = None) -> int:
    """
    :param log_interval: iterations between rows; ``None`` for the algorithm's default
    :return: an argument for ``learn`` with which the rows keep their rhythm, although it counts from 1 again
    """
    if log_interval is None:
        methods = (vars(cls)["learn"] for cls in type(model).__mro__ if "learn" in vars(cls))
        parameters = (inspect.signature(method).parameters for method in methods)
        log_interval = next(found["log_interval"].default for found in parameters if "log_interval" in found)
    shifted = _ShiftedInterval(log_interval)
    shifted.before = next((state["iterations"] for name, state in states if name == _TRAINING), 0)
    return shifted
