"""Schedules for the parameters of an algorithm: the kinds (``kinds``), how to write them (``parsing``), and how an
algorithm follows them (``following``).
"""

from sb3_ext.common.schedules.following import ScheduleSet
from sb3_ext.common.schedules.kinds import Constant, Curve, LinearToZero, Points, Schedule
from sb3_ext.common.schedules.parsing import parse_schedule

__all__ = ["Constant", "Curve", "LinearToZero", "Points", "Schedule", "ScheduleSet", "parse_schedule"]
