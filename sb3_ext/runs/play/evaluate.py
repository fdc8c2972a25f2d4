"""Evaluates an agent and records the episodes: their scores as JSON, their pictures as a video."""

from pathlib import Path
from typing import Any, NamedTuple

from stable_baselines3.common.type_aliases import PolicyPredictor
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.play.frames import CantRender, filmed
from sb3_ext.runs.play.scoring import Scores, play

__all__ = ["Evaluated", "evaluate_and_record"]


class Evaluated(NamedTuple):
    """Scores, the video, and why there is none although one was wanted."""

    scores: Scores
    video: Path | None = None
    no_video: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        scores = self.scores
        episodes = zip(scores.rewards, scores.lengths, strict=True)
        return {
            "mean_reward": scores.mean,
            "std_reward": scores.std,
            "mean_length": scores.mean_length,
            "success_rate": scores.success_rate,
            "episodes": [{"reward": reward, "length": length} for reward, length in episodes],
            "video": None if self.video is None else str(self.video),
            "no_video": self.no_video,
        }


def evaluate_and_record(agent: PolicyPredictor, env: VecEnv, video: Path | None = None, **settings: Any) -> Evaluated:
    """
    :param env: for a video, a ``DummyVecEnv`` in the render mode ``rgb_array``; its first environment is recorded
    :param video: where to write it; if the environment can't be rendered, there are only scores
    :param settings: of :func:`~sb3_ext.runs.play.scoring.play`
    """
    if video is None:
        return Evaluated(play(agent, env, **settings))
    try:
        with atomic_write(video) as unfinished, filmed(env, unfinished):
            scores = play(agent, env, **settings)
        return Evaluated(scores, video)
    except CantRender as error:
        return Evaluated(play(agent, env, **settings), no_video=str(error))
