"""What a study is about: it must stay the same when the study continues, or trials could not be compared."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Field

from sb3_ext.common.options import Count, Fraction, Integer, KeyValues, Number, Options, Strings, Text, read_options
from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.trial_training import TrialTraining

__all__ = ["FRESH", "SEARCH", "SELECT", "StudySettings"]

#: Where the seeds of a phase begin, so that no training of a later phase is one that chose the configuration
SEARCH, SELECT, FRESH = 0, 200, 400
_PER_STUDY = 1000


class StudySettings(Options):
    """
    :param source: the section and the space as the command found them, to notice that they changed
    :param start: the section that the study starts from and is compared with, as in a hyperparameter file
    :param space: see :meth:`SearchSpace.as_dict <sb3_ext.tune.space.SearchSpace.as_dict>`
    :param timesteps: of each training
    :param seeds: number of seeds that a configuration is trained with
    :param seed: of the study: the same seed and one worker give the same trials
    :param objective: score of a training: area under the curve (``auc``), steps to the threshold (``steps``), or the
        mean of the last third of evaluations (``final``)
    :param quantile: of the seeds' scores: 0.5 for the median, which does not see one failure in three
    :param clock: judge by time instead of steps: each training gets the time that the start takes
    :param pruner: what stops hopeless trials; each one is told other numbers
    :param threshold: score at which the environment counts as solved; ``None`` if it has none
    """

    algo: Text
    env: Text
    source: KeyValues
    start: KeyValues
    space: KeyValues
    timesteps: Count
    seeds: Annotated[Count, Field(le=FRESH - SELECT)] = 3
    seed: Annotated[Integer, Field(ge=0, le=4_000_000)] = 0
    objective: Literal["auc", "steps", "final"] = "auc"
    quantile: Fraction = 0.25
    clock: bool = False
    pruner: Literal["median", "wilcoxon", "hyperband", "none"] = "median"
    threshold: Number | None = None
    evaluations: Annotated[Count, Field(ge=2)] = 10
    episodes: Count = 5
    gym_packages: Strings = ()

    @classmethod
    def read(cls, raw: Mapping[str, Any], where: str) -> StudySettings:
        try:
            return read_options(cls, dict(raw), where)
        except (TypeError, ValueError) as error:
            raise UsageError(str(error)) from None

    def training(
        self, section: dict[str, Any], seed: int, phase: int = SEARCH, max_seconds: float | None = None
    ) -> TrialTraining:
        """:param seed: number of the seed, from 0"""
        return TrialTraining(
            self.algo,
            self.env,
            section,
            self.real_seed(seed, phase),
            self.timesteps,
            self.evaluations,
            self.episodes,
            gym_packages=self.gym_packages,
            max_seconds=max_seconds,
        )

    def real_seed(self, seed: int, phase: int = SEARCH) -> int:
        return _PER_STUDY * self.seed + phase + seed

    def check_same(self, given: Mapping[str, Any], study: str) -> None:
        """
        :param given: what the command line asks for
        :raises UsageError: when the study was made for something else
        """
        stored = self.model_dump()
        changed = [name for name, value in given.items() if stored[name] != value]
        if "algo" in changed or "env" in changed:
            raise UsageError(
                f"The study {study!r} is of {self.algo} on {self.env}, not of {given['algo']} on {given['env']}.\n"
                "Choose another name with --study."
            )
        if changed:
            name = changed[0]
            is_long = name == "source"
            what = (
                "started from another section or space" if is_long else f"has {name} {stored[name]}, not {given[name]}"
            )
            advice = "so its trials can't be compared with new ones. Choose another name with --study"
            raise UsageError(f"The study {study!r} {what}, {advice}.")
