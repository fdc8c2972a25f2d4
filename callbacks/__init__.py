"""Callbacks: metrics, alerts, evaluation, checkpoints, tracking, reports.

One file a topic; each does one thing, asks the algorithm through public methods, and is usable from a YAML
``callback:`` line, with stock algorithms too.
"""

from sb3_ext.callbacks.curriculum import Curriculum
from sb3_ext.callbacks.episode_metrics import EpisodeMetrics
from sb3_ext.callbacks.observation_scale import WarnObservationScale
from sb3_ext.callbacks.save_normalization import SaveNormalization
from sb3_ext.callbacks.training_progress import TrainingProgress, tell_progress

__all__ = [
    "Curriculum",
    "EpisodeMetrics",
    "SaveNormalization",
    "TrainingProgress",
    "WarnObservationScale",
    "tell_progress",
]
