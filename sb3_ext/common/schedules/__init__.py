"""Schedules for any number of a config: what they are (``kinds``), how they are written (``parsing``), and how an
algorithm follows them (``scheduled``).
"""

from sb3_ext.common.schedules.kinds import Constant, Curve, LinearToZero, Points, Schedule
from sb3_ext.common.schedules.parsing import parse_schedule
from sb3_ext.common.schedules.scheduled import ScheduledAlgorithm

__all__ = [
    "Constant",
    "Curve",
    "LinearToZero",
    "Points",
    "Schedule",
    "ScheduledAlgorithm",
    "parse_schedule",
]
