"""Logs what wrappers report about finished episodes."""

from collections import deque
from typing import ClassVar

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from sb3_ext.common.stateful import Stateful
from sb3_ext.wrappers.base import EPISODE_KEY

__all__ = ["EpisodeMetrics"]


#: Drawn parameters, whose spread is logged too
_DRAWN = "env/"
#: Episodes for the spread, as many as SB3 uses for the mean reward
_WINDOW = 100


class EpisodeMetrics(Stateful, BaseCallback):
    """
    Logs what wrappers put into ``info["ext_episode"]`` (rewards by term, drawn parameters, …): the mean over the
    episodes that ended since the last row. For parameters (``env/<name>``), also the standard deviation, minimum and
    maximum over the last 100 episodes. Works with every SB3 algorithm.
    """

    state_names: ClassVar[tuple[str, ...]] = ("n_calls", "_drawn")

    def __init__(self, verbose: int = 0) -> None:
        super().__init__(verbose)
        self._drawn: dict[str, deque[float]] = {}

    def _on_step(self) -> bool:
        dones = self.locals["dones"]
        if not np.count_nonzero(dones):  # a quarter of the time of any()
            return True
        infos = self.locals["infos"]
        for index in dones.nonzero()[0]:
            for name, value in infos[index].get(EPISODE_KEY, {}).items():
                self.logger.record_mean(name, value)
                if name.startswith(_DRAWN):
                    self._drawn.setdefault(name, deque(maxlen=_WINDOW)).append(value)
        return True

    def _on_rollout_end(self) -> None:
        for name, values in self._drawn.items():
            self.logger.record(f"{name}_std", float(np.std(values)))
            self.logger.record(f"{name}_min", min(values))
            self.logger.record(f"{name}_max", max(values))
