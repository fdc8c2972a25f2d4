"""Environment wrappers: reward shaping, domain randomisation, noise, memory, timing, curricula, action masks.

One file a topic; each is usable from a YAML ``env_wrapper:`` line.
"""

from sb3_ext.wrappers.actions import ActionMaskFromInfo, RemapActions
from sb3_ext.wrappers.base import SeededWrapper, insert_below_monitor, report
from sb3_ext.wrappers.curriculum.env import CurriculumEnv, wrap_in_curriculum
from sb3_ext.wrappers.curriculum.options import read_curriculum
from sb3_ext.wrappers.history import MaskObservation, PreviousActions
from sb3_ext.wrappers.noise import ActionNoise, ObservationDelay, ObservationDropout, ObservationNoise, StickyActions
from sb3_ext.wrappers.randomization.known_envs import (
    CartPoleRandomization,
    DomainRandomization,
    LunarLanderRandomization,
    MountainCarRandomization,
    PendulumRandomization,
)
from sb3_ext.wrappers.shaping.count_bonus import CountBonus, share_counts
from sb3_ext.wrappers.shaping.generic import InfoTerms, TimePenalty
from sb3_ext.wrappers.shaping.known_envs import (
    AcrobotPotential,
    AcrobotShaping,
    CartPoleShaping,
    MountainCarPotential,
    MountainCarShaping,
    PongShaping,
    TaxiPotential,
    TaxiShaping,
)
from sb3_ext.wrappers.shaping.potential import PotentialShaping
from sb3_ext.wrappers.shaping.terms import RewardTerms, Step
from sb3_ext.wrappers.static_normalization import ScaleObservations
from sb3_ext.wrappers.timing import FrameSkip, time_limit
from sb3_ext.wrappers.training_link import link_to_training

__all__ = [
    "AcrobotPotential",
    "AcrobotShaping",
    "ActionMaskFromInfo",
    "ActionNoise",
    "CartPoleRandomization",
    "CartPoleShaping",
    "CountBonus",
    "CurriculumEnv",
    "DomainRandomization",
    "FrameSkip",
    "InfoTerms",
    "LunarLanderRandomization",
    "MaskObservation",
    "MountainCarPotential",
    "MountainCarRandomization",
    "MountainCarShaping",
    "ObservationDelay",
    "ObservationDropout",
    "ObservationNoise",
    "PendulumRandomization",
    "PongShaping",
    "PotentialShaping",
    "PreviousActions",
    "RemapActions",
    "RewardTerms",
    "ScaleObservations",
    "SeededWrapper",
    "Step",
    "StickyActions",
    "TaxiPotential",
    "TaxiShaping",
    "TimePenalty",
    "insert_below_monitor",
    "link_to_training",
    "read_curriculum",
    "report",
    "share_counts",
    "time_limit",
    "wrap_in_curriculum",
]
