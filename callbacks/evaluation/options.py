"""Options of evaluation:

every: 20000              # timesteps
episodes: 20              # or steps: 20000
process: true             # in a separate process, while training continues
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
    :param steps: steps to play instead, in all evaluation environments together; started episodes are played to their
        end
    :param envs: evaluation environments, which are played side by side; ``None`` for RL Zoo's ``--n-eval-envs``, or 1
    :param deterministic: play the most likely action; ``None``: as in RL Zoo, which samples actions only for Atari and
        MiniGrid
    :param threshold: see :class:`ScoreOptions`
    :param start_at: start when the rollout score has covered this fraction of the way from the first one to the
        threshold; ``None``: from the start
    :param stop: end training when the mean of the last evaluations (``eval``) or of the last 100 training episodes
        (``rollout``) reaches the threshold, when the evaluations no longer improve (``plateau``), or ``never``
    :param window: number of evaluations in that mean
    :param patience: for ``plateau``: evaluations without improvement after which training ends
    :param min_improvement: for ``plateau``: by how much a mean must exceed the best one so far to count
    :param stop_after: for ``plateau``: never stop before this fraction of the training
    :param process: evaluate in a separate process, while training continues
    :param busy: if that process is still busy at the next evaluation: ``wait`` for it (if it takes far too long,
        continue in this process), or ``skip`` the new one
    :param final: evaluate the last weights at the end of training; ``None``: same as ``process``
    """

    every: Count | None = None
    warmup: Annotated[Integer, Field(ge=0)] = 0
    episodes: Count | None = None
    steps: Count | None = None
    envs: Count | None = None
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
