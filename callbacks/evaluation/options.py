"""When and how a training is evaluated, as a config says it:

every: 20000              # timesteps
episodes: 20              # or steps: 20000
process: true             # in a process of its own, while training goes on
stop: eval                # when the threshold of the environment is reached
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from sb3_ext.common.option_readers import (
    Reader,
    read_choice,
    read_finite,
    read_flag,
    read_share,
    read_switch,
    read_whole,
)

__all__ = ["EvaluationConfig", "config_of", "read_evaluation"]

STOPS = ("never", "eval", "rollout", "plateau")
BUSY = ("skip", "wait")
_READERS: dict[str, Reader] = {
    "every": read_whole,
    "warmup": partial(read_whole, at_least=0),
    "episodes": read_whole,
    "steps": read_whole,
    "deterministic": read_flag,
    "threshold": read_finite,
    "start_at": read_share,
    "stop": partial(read_choice, allowed=STOPS),
    "window": read_whole,
    "patience": read_whole,
    "min_improvement": partial(read_finite, at_least=0),
    "stop_after": read_share,
    "process": read_flag,
    "busy": partial(read_choice, allowed=BUSY),
    "final": read_flag,
}
#: Options that only a plateau has
_OF_PLATEAU = ("patience", "min_improvement", "stop_after")


@dataclass(frozen=True)
class EvaluationConfig:
    """
    :param every: timesteps from one evaluation to the next, whatever the number of environments is; ``None`` for RL
        Zoo's ``--eval-freq``, or 10,000
    :param warmup: no evaluation before so many timesteps
    :param episodes: episodes to play; ``None`` for RL Zoo's ``--eval-episodes``, or 5
    :param steps: steps to play instead, of all evaluation environments together; episodes that have begun by then are
        played to their end
    :param deterministic: whether the agent takes its most likely action; ``None`` as RL Zoo does, which plays by chance
        on Atari and MiniGrid only
    :param threshold: mean raw reward at which the environment counts as solved; ``None`` for the one in its spec
    :param start_at: share of the way from the first rollout score to the threshold that the rollout score must have
        passed before the first evaluation; ``None`` to evaluate from the start
    :param stop: what ends training when it reaches the threshold: the mean of the last evaluations (``eval``), the mean
        of the last 100 training episodes (``rollout``), or nothing (``never``); ``plateau`` ends it when the mean of
        the last evaluations no longer improves
    :param window: how many evaluations that mean is of
    :param patience: for ``plateau``: evaluations without improvement after which training ends
    :param min_improvement: for ``plateau``: by how much a mean must exceed the best one before to count
    :param stop_after: for ``plateau``: share of the training before which it does not end
    :param process: evaluate in a process of its own, while training goes on
    :param busy: what to do when that process is still at work when the next evaluation is due: ``wait`` for it, and
        evaluate in this process from then on if it takes far too long; or ``skip`` the new one
    :param final: whether to evaluate the last weights when training ends; ``None``: with ``process`` only
    """

    every: int | None = None
    warmup: int = 0
    episodes: int | None = None
    steps: int | None = None
    deterministic: bool | None = None
    threshold: float | None = None
    start_at: float | None = None
    stop: str = "never"
    window: int = 3
    patience: int = 10
    min_improvement: float = 0.0
    stop_after: float = 0.3
    process: bool = False
    busy: str = "wait"
    final: bool | None = None

    @property
    def needs_threshold(self) -> bool:
        """Whether it can't be done without one."""
        return self.stop in ("eval", "rollout") or self.start_at is not None

    @property
    def evaluates_at_end(self) -> bool:
        """Whether the last weights are evaluated."""
        return self.process if self.final is None else self.final


def read_evaluation(written: Any, where: str = "evaluation:") -> EvaluationConfig | None:
    """
    :param written: what a config has under ``evaluation``: ``true``, ``false``, or options
    :param where: what to call that in errors
    :return: ``None`` when it is off
    :raises TypeError: when a key is not known
    :raises ValueError: when a value is not possible
    """
    if isinstance(written, Mapping):
        written = {key: value for key, value in written.items() if value is not None}
    config = read_switch(written, EvaluationConfig, _READERS, where, "every: 20000")
    if config is not None and config.episodes is not None and config.steps is not None:
        raise ValueError(f"{where} episodes={config.episodes} and steps={config.steps}: only one of them can be given.")
    given = [key for key in _OF_PLATEAU if isinstance(written, Mapping) and key in written]
    if config is not None and config.stop != "plateau" and given:
        raise ValueError(f"{where} {given[0]} says when a plateau ends the training: it needs stop: plateau.")
    return config


def config_of(
    owner: str, config: EvaluationConfig | Mapping[str, Any] | None, options: Mapping[str, Any]
) -> EvaluationConfig:
    """
    :param owner: what takes them, for errors
    :param config: the whole
    :param options: or its fields by name
    """
    if config is not None and options:
        raise TypeError(f"{owner} give either config or its fields ({', '.join(options)}), not both.")
    read = read_evaluation(options if config is None else config, owner)
    if read is None:
        raise ValueError(f"{owner} config={config!r} switches it off: leave the callback out instead.")
    return read
