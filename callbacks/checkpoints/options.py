"""Options of checkpoints:

every: 100000        # timesteps; RL Zoo's --save-freq overrides it
keep: 5              # how many of these to keep; null keeps all
table: true          # an episode step by step
video: true          # skipped if the environment can't be rendered
resume_seconds: 60   # how much training a crash may cost
"""

from typing import Annotated, ClassVar

from pydantic import Field

from sb3_ext.common.options import Count, Integer, Number, Options

__all__ = ["CheckpointsOptions"]


class CheckpointsOptions(Options):
    """
    :param every: timesteps between checkpoints, for any number of environments; ``None`` for none
    :param keep: how many of these to keep, and how many videos of best models; ``None`` for all
    :param best: record the best model, which evaluation saves
    :param last: keep the last model, with each checkpoint and at the end
    :param table: record an episode step by step
    :param video: record a video of it; ``None``: if the environment can be rendered
    :param deterministic: play the most likely actions; ``None``: as in evaluation
    :param seed: of the episode; all checkpoints start from the same state
    :param max_steps: stop recording a longer episode here
    :param resume_seconds: seconds between writes of the state that ``sb3-ext resume`` continues from, which is also
        written when training ends; ``None`` for no state
    :param wait: seconds to wait for recordings at the end of training
    """

    callback: ClassVar[str] = "sb3_ext.callbacks.checkpoints.Checkpoints"

    every: Count | None = None
    keep: Count | None = 5
    best: bool = True
    last: bool = True
    table: bool = True
    video: bool | None = None
    deterministic: bool | None = None
    seed: Annotated[Integer, Field(ge=0)] = 0
    max_steps: Count = 10_000
    resume_seconds: Annotated[Number, Field(ge=0)] | None = 60.0
    wait: Annotated[Integer, Field(ge=0)] = 60
