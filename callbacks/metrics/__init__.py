"""The metrics that SB3 leaves out, computed when the logger writes a row."""

from sb3_ext.callbacks.metrics.callback import Metrics
from sb3_ext.callbacks.metrics.episode_metrics import EpisodeMetrics

__all__ = ["EpisodeMetrics", "Metrics"]
