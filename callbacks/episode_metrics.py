"""Numbers that wrappers report about finished episodes, in the logger."""

from __future__ import annotations

from stable_baselines3.common.callbacks import BaseCallback

from sb3_ext.wrappers.episode_report import EPISODE_KEY

__all__ = ["EpisodeMetrics"]


class EpisodeMetrics(BaseCallback):
    """
    Records what wrappers put into ``info["ext_episode"]`` (rewards by term, sampled parameters, …): the mean over the
    episodes that ended since the logger wrote last. For all algorithms of SB3.
    """

    def _on_step(self) -> bool:
        dones = self.locals["dones"]
        if not dones.any():
            return True
        infos = self.locals["infos"]
        for index in dones.nonzero()[0]:
            for name, value in infos[index].get(EPISODE_KEY, {}).items():
                self.logger.record_mean(name, value)
        return True
