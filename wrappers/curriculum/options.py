"""What a curriculum is, as it is written in a config: stages, and when to go from one to the next or back.

curriculum:
  window: 100                          # episodes that a score is the mean of
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
from dataclasses import dataclass, field
from typing import Any

import gymnasium as gym

from sb3_ext.common.names import check_choice, check_keywords
from sb3_ext.common.option_readers import read_finite, read_mapping, read_whole
from sb3_ext.wrappers.env_variants import EnvVariant, read_variant

__all__ = ["Back", "CurriculumConfig", "Next", "Plateau", "Stage", "read_curriculum"]

EVAL_STAGES = ("last", "current")
_STAGE_KEYS = ("name", "env", "env_kwargs", "attributes", "calls", "reset_options", "window", "next", "back")


@dataclass(frozen=True)
class Plateau:
    """
    :param steps: for how many timesteps the score did not improve
    :param min_improvement: by how much it must, to count
    """

    steps: int
    min_improvement: float = 0.0


@dataclass(frozen=True)
class Next:
    """
    When to move on: any of these is enough.

    :param score: mean raw reward of the last episodes, from which on
    :param steps: timesteps in the stage
    :param plateau: the score doesn't improve any more
    """

    score: float | None = None
    steps: int | None = None
    plateau: Plateau | None = None


@dataclass(frozen=True)
class Back:
    """
    When to go back.

    :param score_below: mean raw reward of the last episodes, below which
    :param min_steps: timesteps in the stage before it may
    """

    score_below: float
    min_steps: int = 0


@dataclass(frozen=True)
class Stage:
    """
    :param name: what to call it
    :param variant: its environment
    :param attributes: path to an attribute of the environment or of a wrapper: its value
    :param calls: path to a method of the environment or of a wrapper: what it is called with when the stage begins
    :param reset_options: options for each reset
    :param window: episodes that a score is the mean of
    :param next: when to move on
    :param back: when to go back
    """

    name: str
    variant: EnvVariant = field(default_factory=EnvVariant)
    attributes: Mapping[str, Any] = field(default_factory=dict)
    calls: Mapping[str, Any] = field(default_factory=dict)
    reset_options: Mapping[str, Any] = field(default_factory=dict)
    window: int = 100
    next: Next | None = None
    back: Back | None = None


@dataclass(frozen=True)
class CurriculumConfig:
    """
    :param stages: in their order
    :param eval_stage: which of them evaluation plays: the ``last`` one, so that scores and the best model mean the real
        task, or the ``current`` one
    """

    stages: tuple[Stage, ...]
    eval_stage: str = "last"
    #: Environments whose stages were all made once; goes to other processes too, so that each needn't do it again
    checked: set[str] = field(default_factory=set, init=False, repr=False, compare=False)

    @property
    def ends_with_the_given_env(self) -> bool:
        """Whether the last stage is the environment as it is given: what RL Zoo's ``enjoy`` plays."""
        last = self.stages[-1]
        return last.variant.is_plain and not (last.attributes or last.calls or last.reset_options)

    def wrap(
        self,
        env: gym.Env,
        env_wrapper: Callable[[gym.Env], gym.Env] | None = None,
        evaluation: bool = False,
    ) -> gym.Env:
        """
        :param env: an environment, in a Monitor or not
        :param env_wrapper: puts it into other wrappers
        :param evaluation: whether agents are evaluated in it, and not trained
        :return: the environment, in the first stage or in that for evaluation
        """
        from sb3_ext.wrappers.curriculum.env import wrap_in_curriculum

        stage = len(self.stages) - 1 if evaluation and self.eval_stage == "last" else 0
        return wrap_in_curriculum(env, self, env_wrapper, stage)

    def callback_entry(self, verbose: int = 0) -> dict[str, Any]:
        """
        :param verbose: 1 prints when the stage changes
        :return: what makes the callback under RL Zoo's key ``callback``, a new one for each trial of a search
        """
        return {"sb3_ext.callbacks.curriculum.Curriculum": {"curriculum": self, "verbose": verbose}}

    def check(self, make_env: Callable[[], gym.Env], env_wrapper: Callable[[gym.Env], gym.Env] | None = None) -> None:
        """
        Make the environment of each stage once, in this process, whose errors are easier to read than another one's.
        The first :meth:`wrap` does it too.

        :param make_env: makes the environment
        :param env_wrapper: puts it into other wrappers
        :raises ValueError: when one can't be made, has other spaces, or no such attribute
        """
        self.wrap(make_env(), env_wrapper).close()


def read_curriculum(written: Any) -> CurriculumConfig:
    """
    :param written: what a config has under ``curriculum``
    :raises TypeError: when a key is not known
    :raises ValueError: when a value is not possible
    """
    if isinstance(written, CurriculumConfig):
        return written
    if not isinstance(written, Mapping) or "stages" not in written:
        raise ValueError(f"curriculum: {written!r} needs stages, such as curriculum: {{stages: [...]}}.")
    check_keywords("curriculum:", written, ("stages", "window", "eval_stage"))
    eval_stage = written.get("eval_stage", "last")
    check_choice("curriculum: eval_stage", eval_stage, EVAL_STAGES)
    stages = written["stages"]
    if isinstance(stages, (str, Mapping)) or not isinstance(stages, Sequence) or not stages:
        raise ValueError(f"curriculum: stages: {stages!r} must be a list with at least one stage.")
    window = read_whole("curriculum: window", written.get("window", 100))
    read = tuple(_read_stage(index, stage, window) for index, stage in enumerate(stages))
    _check_order(read)
    return CurriculumConfig(read, eval_stage)


def _read_stage(index: int, written: Any, window: int) -> Stage:
    where = f"curriculum: stage {index + 1}"
    if written is None:
        written = {}
    if not isinstance(written, Mapping):
        raise ValueError(f"{where}: {written!r} must be keys with values, such as {{env_kwargs: {{gravity: -8}}}}.")
    check_keywords(f"{where}:", written, _STAGE_KEYS)
    name = written.get("name", f"stage {index + 1}")
    if not isinstance(name, str) or not name:
        raise ValueError(f"{where}: name: {name!r} must be a text.")
    return Stage(
        name,
        read_variant(where, written),
        read_mapping(f"{where}: attributes", written.get("attributes")),
        read_mapping(f"{where}: calls", written.get("calls")),
        read_mapping(f"{where}: reset_options", written.get("reset_options")),
        read_whole(f"{where}: window", written.get("window", window)),
        _read_next(f"{where}: next", written.get("next")),
        _read_back(f"{where}: back", written.get("back")),
    )


def _read_next(where: str, written: Any) -> Next | None:
    if written is None:
        return None
    written = read_mapping(where, written)
    check_keywords(f"{where}:", written, ("score", "steps", "plateau"))
    if not written:
        raise ValueError(f"{where}: it is empty, and needs score, steps or plateau.")
    plateau = None
    if "plateau" in written:
        given = read_mapping(f"{where}: plateau", written["plateau"])
        check_keywords(f"{where}: plateau:", given, ("steps", "min_improvement"))
        if "steps" not in given:
            raise ValueError(f"{where}: plateau: {dict(given)} needs steps, such as {{steps: 100000}}.")
        plateau = Plateau(
            read_whole(f"{where}: plateau: steps", given["steps"]),
            read_finite(f"{where}: plateau: min_improvement", given.get("min_improvement", 0.0), at_least=0.0),
        )
    score = read_finite(f"{where}: score", written["score"]) if "score" in written else None
    steps = read_whole(f"{where}: steps", written["steps"]) if "steps" in written else None
    return Next(score, steps, plateau)


def _read_back(where: str, written: Any) -> Back | None:
    if written is None:
        return None
    written = read_mapping(where, written)
    check_keywords(f"{where}:", written, ("score_below", "min_steps"))
    if "score_below" not in written:
        raise ValueError(f"{where}: {dict(written)} needs score_below, such as {{score_below: 0, min_steps: 50000}}.")
    score = read_finite(f"{where}: score_below", written["score_below"])
    return Back(score, read_whole(f"{where}: min_steps", written.get("min_steps", 0), at_least=0))


def _check_order(stages: Sequence[Stage]) -> None:
    """That every stage can be reached, and that no condition is in vain."""
    names = [stage.name for stage in stages]
    called = {path: stage.name for stage in stages for path in stage.calls}
    for index, stage in enumerate(stages):
        where = f"curriculum: stage {index + 1} ({stage.name!r})"
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
