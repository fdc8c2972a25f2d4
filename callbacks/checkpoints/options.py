"""Which models of a training are kept, and what is kept with them:

every: 100000        # timesteps; RL Zoo's --save-freq goes first
keep: 5              # of those every n steps; null keeps all
table: true          # an episode step by step
video: true          # left out where the environment can't be rendered
"""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import Field

from sb3_ext.common.options import Count, Integer, Options

__all__ = ["CheckpointsOptions"]


class CheckpointsOptions(Options):
    """
    :param every: timesteps between two checkpoints, for any number of environments; ``None`` for none
    :param keep: how many of those are kept, and how many videos of best models; ``None`` for all
    :param best: whether to describe the best model, which evaluation saves
    :param last: whether to keep the last model, with each checkpoint and at the end
    :param table: whether to write down an episode step by step, for each of them
    :param video: whether to record it; ``None``: where the environment can be rendered
    :param deterministic: whether that episode is played with the most likely actions; ``None`` as evaluation does
    :param seed: of the episode; with the same one, all checkpoints begin alike
    :param max_steps: after which a longer episode is left
    :param wait: seconds to wait, when training is over, for what is still being recorded
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
    wait: Annotated[Integer, Field(ge=0)] = 60
