"""Callbacks: metrics, alerts, evaluation, checkpoints, tracking, reports.

Each file or package is about one topic. All of them work with stock algorithms, and under RL Zoo's key ``callback:``.
They join the run of their training, see ``sb3_ext.runs.run``.
"""

from sb3_ext.callbacks.alerts import Alerts
from sb3_ext.callbacks.checkpoints import Checkpoints
from sb3_ext.callbacks.curriculum import Curriculum
from sb3_ext.callbacks.evaluation import Evaluation
from sb3_ext.callbacks.metrics import EpisodeMetrics, Metrics
from sb3_ext.callbacks.observation_scale import WarnObservationScale
from sb3_ext.callbacks.report import Report
from sb3_ext.callbacks.save_normalization import SaveNormalization
from sb3_ext.callbacks.table import LogFiles, Table
from sb3_ext.callbacks.tracking import Tracking
from sb3_ext.callbacks.training_progress import TrainingProgress
from sb3_ext.wrappers.training_link import tell_progress

__all__ = [
    "Alerts",
    "Checkpoints",
    "Curriculum",
    "EpisodeMetrics",
    "Evaluation",
    "LogFiles",
    "Metrics",
    "Report",
    "SaveNormalization",
    "Table",
    "Tracking",
    "TrainingProgress",
    "WarnObservationScale",
    "tell_progress",
]
