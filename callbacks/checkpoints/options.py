"""Which models of a training are kept, and what is kept with them, as a config says it:

every: 100000        # timesteps; RL Zoo's --save-freq goes first
keep: 5              # of those every n steps; null keeps all
table: true          # an episode step by step
video: true          # left out where the environment can't be rendered
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from sb3_ext.common.option_readers import Reader, may_be_none, read_flag, read_switch, read_whole

if TYPE_CHECKING:
    from sb3_ext.callbacks.checkpoints.callback import Checkpoints
    from sb3_ext.callbacks.checkpoints.recorder import MakeEnv

__all__ = ["CheckpointsConfig", "read_checkpoints"]

_READERS: dict[str, Reader] = {
    "every": may_be_none(read_whole),
    "keep": may_be_none(read_whole),
    "best": read_flag,
    "last": read_flag,
    "table": read_flag,
    "video": may_be_none(read_flag),
    "deterministic": may_be_none(read_flag),
    "seed": partial(read_whole, at_least=0),
    "max_steps": read_whole,
    "wait": partial(read_whole, at_least=0),
}


@dataclass(frozen=True)
class CheckpointsConfig:
    """
    :param every: timesteps from one checkpoint to the next, whatever the number of environments is; ``None`` for none
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

    every: int | None = None
    keep: int | None = 5
    best: bool = True
    last: bool = True
    table: bool = True
    video: bool | None = None
    deterministic: bool | None = None
    seed: int = 0
    max_steps: int = 10_000
    wait: int = 60

    def make_callback(
        self, folder: str, make_env: MakeEnv | None = None, every: int | None = None, verbose: int = 0
    ) -> Checkpoints:
        """
        :param folder: the run folder
        :param make_env: makes an environment to play in, in another process
        :param every: in place of that of the config, such as RL Zoo's ``--save-freq``
        :param verbose: 2 tells what was recorded
        """
        from sb3_ext.callbacks.checkpoints.callback import Checkpoints

        config = self if every is None else replace(self, every=every)
        return Checkpoints(folder, make_env, verbose, **asdict(config))


def read_checkpoints(written: Any, where: str = "checkpoints:") -> CheckpointsConfig | None:
    """
    :param written: what a config has under ``checkpoints``: ``true``, ``false``, or options
    :param where: what to call that in errors
    :return: ``None`` when it is off
    :raises TypeError: when a key is not known
    :raises ValueError: when a value is not possible
    """
    return read_switch(written, CheckpointsConfig, _READERS, where, "every: 100000")
