"""When and how a training is evaluated:

every: 20000              # timesteps
episodes: 20              # or steps: 20000
process: true             # in a process of its own, while training goes on
stop: eval                # when the threshold is reached
"""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from sb3_ext.callbacks.base import ScoreOptions
from sb3_ext.common.options import Count, Fraction, Integer, Number

__all__ = ["EvaluationOptions"]


class EvaluationOptions(ScoreOptions):
    """
    :param every: timesteps between two evaluations, for any number of environments; ``None`` for RL Zoo's
        ``--eval-freq``, or 10,000
    :param warmup: no evaluation before this many timesteps
    :param episodes: episodes to play; ``None`` for RL Zoo's ``--eval-episodes``, or 5
    :param steps: steps to play instead, in all evaluation environments together; episodes that have begun by then are
        played to their end
    :param deterministic: whether the agent takes its most likely action; ``None`` as RL Zoo does, which samples actions
        on Atari and MiniGrid only
    :param threshold: see :class:`ScoreOptions`
    :param start_at: fraction of the way from the first rollout score to the threshold that the rollout score must have
        passed before the first evaluation; ``None`` to evaluate from the start
    :param stop: what ends training when it reaches the threshold: the mean of the last evaluations (``eval``), the mean
        of the last 100 training episodes (``rollout``), or nothing (``never``); ``plateau`` ends it when the mean of
        the last evaluations no longer improves
    :param window: number of evaluations in that mean
    :param patience: for ``plateau``: evaluations without improvement after which training ends
    :param min_improvement: for ``plateau``: by how much a mean must exceed the best one before to count
    :param stop_after: for ``plateau``: fraction of the training before which it does not end
    :param process: evaluate in a process of its own, while training goes on
    :param busy: what to do when that process is still at work when the next evaluation is due: ``wait`` for it, and
        evaluate in this process from then on if it takes far too long; or ``skip`` the new one
    :param final: whether to evaluate the last weights when training ends; ``None``: with ``process`` only
    """

    every: Count | None = None
    warmup: Annotated[Integer, Field(ge=0)] = 0
    episodes: Count | None = None
    steps: Count | None = None
    deterministic: bool | None = None
    start_at: Fraction | None = None
    stop: Literal["never", "eval", "rollout", "plateau"] = "never"
    window: Count = 3
    patience: Count = 10
    min_improvement: Annotated[Number, Field(ge=0)] = 0.0
    stop_after: Fraction = 0.3
    process: bool = False
    busy: Literal["skip", "wait"] = "wait"
    final: bool | None = None

    @model_validator(mode="after")
    def _check(self) -> EvaluationOptions:
        if self.episodes is not None and self.steps is not None:
            raise ValueError(f"episodes={self.episodes} and steps={self.steps}: only one of them can be given")
        given = sorted(self.model_fields_set & {"patience", "min_improvement", "stop_after"})
        if given and self.stop != "plateau":
            raise ValueError(f"{given[0]} is for plateaus only: it needs stop: plateau")
        return self

    @property
    def needs_threshold(self) -> bool:
        return self.stop in ("eval", "rollout") or self.start_at is not None

    @property
    def evaluates_at_end(self) -> bool:
        """Whether the last weights are evaluated."""
        return self.process if self.final is None else self.final
