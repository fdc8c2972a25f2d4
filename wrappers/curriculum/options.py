"""What a curriculum is: stages, and when to go from one to the next or back.

curriculum:
  window: 100                          # episodes in the mean score
  eval_stage: last                     # or current
  stages:
    - name: calm
      env_kwargs: {enable_wind: false}
      next: {score: 200, steps: 300000}
    - name: breeze
      env_kwargs: {wind_power: 5}
      next: {plateau: {steps: 100000, min_improvement: 5}}
      back: {score_below: 0, min_steps: 50000}
    - name: storm                      # the environment as it is
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Literal

import gymnasium as gym
from pydantic import Field, PrivateAttr, model_validator

from sb3_ext.common.options import Count, Integer, Items, KeyValues, Number, Options, Text, read_options
from sb3_ext.wrappers.env_variants import EnvVariant

__all__ = ["Back", "CurriculumOptions", "Next", "Plateau", "Stage", "read_curriculum"]


class Plateau(Options):
    """
    :param steps: timesteps without an improvement of the score
    :param min_improvement: by how much the score must rise to count as improved
    """

    steps: Count
    min_improvement: Annotated[Number, Field(ge=0)] = 0.0


class Next(Options):
    """
    When to move on: any of these is enough.

    :param score: mean raw reward of the last episodes to reach
    :param steps: timesteps in the stage
    :param plateau: the score no longer improves
    """

    score: Number | None = None
    steps: Count | None = None
    plateau: Plateau | None = None

    @model_validator(mode="after")
    def _check(self) -> Next:
        if self.score is None and self.steps is None and self.plateau is None:
            raise ValueError("it is empty, and needs score, steps or plateau")
        return self


class Back(Options):
    """
    When to go back.

    :param score_below: mean raw reward of the last episodes below which it goes back
    :param min_steps: timesteps in the stage before that
    """

    score_below: Number
    min_steps: Annotated[Integer, Field(ge=0)] = 0


class Stage(EnvVariant):
    """
    A stage of a curriculum, which may be played in another environment.

    :param name: of the stage
    :param attributes: path to an attribute of the environment or of a wrapper: its value
    :param calls: path to a method of the environment or of a wrapper: its argument when the stage begins
    :param reset_options: options for each reset
    :param window: number of episodes in the mean score
    :param next: when to move on
    :param back: when to go back
    """

    name: Text
    attributes: KeyValues = Field(default_factory=dict)
    calls: KeyValues = Field(default_factory=dict)
    reset_options: KeyValues = Field(default_factory=dict)
    window: Count = 100
    next: Next | None = None
    back: Back | None = None


class CurriculumOptions(Options):
    """
    :param stages: in their order; without a name, they are called "stage 1", "stage 2", …
    :param window: number of episodes in the mean score, for stages without a window of their own
    :param eval_stage: which of them evaluation plays: the ``last`` one, so that scores and the best model mean the real
        task, or the ``current`` one
    """

    stages: Annotated[Items[Stage], Field(min_length=1)]
    window: Count = 100
    eval_stage: Literal["last", "current"] = "last"

    #: Environments whose stages were all made once. Other processes get it too and needn't check again
    _checked: set[str] = PrivateAttr(default_factory=set)

    @model_validator(mode="before")
    @classmethod
    def _complete_stages(cls, raw: Any) -> Any:
        if not isinstance(raw, Mapping) or not isinstance(raw.get("stages"), Sequence):
            return raw
        shared = {"window": raw["window"]} if "window" in raw else {}
        stages = list(raw["stages"])
        for index, stage in enumerate(stages):
            if stage is None or isinstance(stage, Mapping):
                stages[index] = {"name": f"stage {index + 1}", **shared, **(stage or {})}
        return {**raw, "stages": stages}

    @model_validator(mode="after")
    def _check(self) -> CurriculumOptions:
        _check_order(self.stages)
        return self

    def wrap(
        self,
        env: gym.Env,
        env_wrapper: Callable[[gym.Env], gym.Env] | None = None,
        evaluation: bool = False,
    ) -> gym.Env:
        """
        Add the stages to an environment. The first call also makes the environment of each stage once.

        :param env: with or without Monitor
        :param env_wrapper: adds other wrappers
        :param evaluation: whether it is for evaluation, and not for training
        """
        from sb3_ext.wrappers.curriculum.env import wrap_in_curriculum

        stage = len(self.stages) - 1 if evaluation and self.eval_stage == "last" else 0
        return wrap_in_curriculum(env, self, env_wrapper, stage)

    def callback_entry(self, verbose: int = 0) -> dict[str, Any]:
        """An entry for RL Zoo's key ``callback``, which makes a new callback for each trial of a search."""
        return {"sb3_ext.callbacks.curriculum.Curriculum": {"curriculum": self, "verbose": verbose}}


def read_curriculum(raw: Any) -> CurriculumOptions:
    """:param raw: a mapping, as under ``curriculum`` in a config"""
    return read_options(CurriculumOptions, raw, "curriculum")


def _check_order(stages: Sequence[Stage]) -> None:
    """That every stage can be reached, and that no condition is in vain."""
    names = [stage.name for stage in stages]
    called = {path: stage.name for stage in stages for path in stage.calls}
    for index, stage in enumerate(stages):
        where = f"stage {index + 1} ({stage.name!r})"
        if names.index(stage.name) != index:
            raise ValueError(f"{where}: stage {names.index(stage.name) + 1} has this name already.")
        is_last = index == len(stages) - 1
        if stage.next is None and not is_last:
            raise ValueError(f"{where}: without next, such as next: {{score: 200}}, the stages after it don't come.")
        if stage.next is not None and is_last:
            raise ValueError(f"{where}: next: it is the last stage, there is none to move on to.")
        if stage.back is not None and index == 0:
            raise ValueError(f"{where}: back: it is the first stage, there is none to go back to.")
        for path, other in called.items():
            if path not in stage.calls:
                raise ValueError(
                    f"{where}: calls: it needs {path!r}, as {other!r} has it: what a call did can't be taken back."
                )
        if stage.next is None or stage.back is None or stage.next.score is None:
            continue
        if stage.back.score_below > stage.next.score:
            raise ValueError(
                f"{where}: it can't go back below a score of {stage.back.score_below:g}: from {stage.next.score:g} "
                "it moves on."
            )
