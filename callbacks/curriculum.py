"""Moves a training through the stages of a curriculum."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from sb3_ext.callbacks.base import RunCallback
from sb3_ext.common.model_file import callback_state
from sb3_ext.wrappers.curriculum.env import STAGE_KEY
from sb3_ext.wrappers.curriculum.options import CurriculumOptions, Stage, read_curriculum

__all__ = ["Curriculum", "CurriculumProgress"]


@dataclass
class CurriculumProgress:
    """
    The progress of a training; can be saved as JSON.

    :param stage: index of the stage
    :param name: its name
    :param stage_steps: timesteps in it
    :param scores: raw rewards of its last episodes, at most its window
    :param best_score: best mean over a full window; a plateau is measured from there
    :param best_score_at: timesteps in the stage at that time
    """

    stage: int = 0
    name: str = ""
    stage_steps: int = 0
    scores: list[float] = field(default_factory=list)
    best_score: float | None = None
    best_score_at: int = 0

    @classmethod
    def restored(cls, saved: Mapping[str, Any] | None, stages: tuple[Stage, ...]) -> CurriculumProgress:
        """From what was saved with a model; without it, the first stage."""
        if not saved:
            return cls(name=stages[0].name)
        names = [stage.name for stage in stages]
        if saved["name"] not in names:
            warnings.warn(
                f"The model was in stage {saved['name']!r}, but the curriculum has {', '.join(names)}: it starts with "
                "the first one.",
                stacklevel=2,
            )
            return cls(name=names[0])
        # Stages may have been added since
        return cls(**{**saved, "stage": names.index(saved["name"]), "scores": list(saved["scores"])})

    @property
    def score(self) -> float | None:
        """Mean over the last episodes."""
        return float(np.mean(self.scores)) if self.scores else None

    def add_score(self, score: float, window: int) -> None:
        """Add the raw reward of an episode that was played entirely in this stage."""
        self.scores.append(float(score))
        del self.scores[:-window]

    def decide(self, stage: Stage) -> tuple[int, str] | None:
        """By how many stages to move, and why; ``None`` to stay."""
        score = self.score if len(self.scores) >= stage.window else None
        reason = self._reason_to_move_on(stage, score)
        if reason is not None:
            return 1, reason
        back = stage.back
        if back is not None and score is not None and score < back.score_below and self.stage_steps >= back.min_steps:
            return -1, f"score {score:.4g} is below {back.score_below:g}"
        return None

    def _reason_to_move_on(self, stage: Stage, score: float | None) -> str | None:
        condition = stage.next
        if condition is None:
            return None
        if condition.score is not None and score is not None and score >= condition.score:
            return f"score {score:.4g} reached {condition.score:g}"
        if condition.steps is not None and self.stage_steps >= condition.steps:
            return f"{condition.steps:,} steps have passed"
        plateau = condition.plateau
        if plateau is None or score is None:
            return None
        if self.best_score is None or score > self.best_score + plateau.min_improvement:
            self.best_score, self.best_score_at = score, self.stage_steps
        if self.stage_steps - self.best_score_at < plateau.steps:
            return None
        return f"score {score:.4g} did not improve on {self.best_score:.4g} for {plateau.steps:,} steps"


class Curriculum(RunCallback):
    """
    Decides at the end of each rollout whether to move on or back, from the raw scores of episodes played in the stage.
    Episodes that have begun end in their stage.

    The progress is saved with the model, and a loaded model continues from there. ``callback_state(model).clear()``
    (from ``sb3_ext.common.model_file``) starts again with the first stage.

    Logs ``curriculum/stage`` (starting at 1), ``curriculum/stage_steps`` and ``curriculum/score``.

    :param curriculum: the stages, as options or as in a hyperparameter file. The environments need them too, see
        ``CurriculumOptions.wrap``
    :param verbose: 1 prints when the stage changes
    """

    def __init__(self, curriculum: CurriculumOptions | Mapping[str, Any], verbose: int = 0) -> None:
        super().__init__(verbose)
        self.options = read_curriculum(curriculum)
        self.progress = CurriculumProgress()

    @property
    def stage(self) -> Stage:
        """The current stage."""
        return self.options.stages[self.progress.stage]

    def _on_training_start(self) -> None:
        if not self.training_env.has_attr("stage"):
            raise ValueError(
                "The environments have no stages: pass CurriculumOptions.wrap to make_vec_env as wrapper_class, or "
                "write the curriculum under ext: in a hyperparameter file."
            )
        self.progress = CurriculumProgress.restored(callback_state(self.model).get("curriculum"), self.options.stages)
        self._keep_progress()
        self._set_stage()
        self._start_over_in_stage()
        self._warn_if_too_short()
        if self.progress.stage_steps + self.progress.stage > 0:
            self.say(
                f"Curriculum: continues in stage {self.progress.stage + 1} of {len(self.options.stages)}, "
                f"{self.stage.name!r}, after {self.progress.stage_steps:,} steps in it"
            )

    def _on_step(self) -> bool:
        self.progress.stage_steps += self.model.n_envs
        for info in self.locals["infos"]:
            # Other episodes began before the stage
            if "episode" in info and info.get(STAGE_KEY) == self.progress.stage:
                self.progress.add_score(info["episode"]["r"], self.stage.window)
        return True

    def _on_rollout_end(self) -> None:
        decision = self.progress.decide(self.stage)
        if decision is not None:
            self._move(*decision)
        self.logger.record("curriculum/stage", self.progress.stage + 1)
        self.logger.record("curriculum/stage_steps", self.progress.stage_steps)
        if self.progress.score is not None:
            self.logger.record("curriculum/score", self.progress.score)

    def _move(self, by: int, reason: str) -> None:
        left, steps = self.stage, self.progress.stage_steps
        stage = self.progress.stage + by
        self.progress = CurriculumProgress(stage, self.options.stages[stage].name)
        self._keep_progress()
        self._set_stage()
        direction = "on" if by > 0 else "back"
        self.say(
            f"Curriculum: {direction} to stage {stage + 1} of {len(self.options.stages)}, {self.stage.name!r}, at "
            f"{self.num_timesteps:,} steps: {reason} in {left.name!r} ({steps:,} steps)"
        )

    def _keep_progress(self) -> None:
        # Not a copy, so that a checkpoint in the middle of a rollout has the latest
        callback_state(self.model)["curriculum"] = vars(self.progress)

    def _set_stage(self) -> None:
        self.training_env.env_method("set_stage", self.progress.stage)
        if self.options.eval_stage == "current":
            for callback in self.run.stock.evaluations:
                if callback.eval_env.has_attr("stage"):
                    callback.eval_env.env_method("set_stage", self.progress.stage)

    def _start_over_in_stage(self) -> None:
        """The environments of a loaded model were reset before its stage was known."""
        if set(self.training_env.get_attr("stage")) == {self.progress.stage}:
            return
        model = self.model
        model._last_obs = self.training_env.reset()  # type: ignore[assignment]
        model._last_episode_starts = np.ones((model.n_envs,), dtype=bool)
        if model._vec_normalize_env is not None:
            model._last_original_obs = model._vec_normalize_env.get_original_obs()

    def _warn_if_too_short(self) -> None:
        """Only stages without conditions on scores have a known minimum length."""
        needed = -self.progress.stage_steps
        for stage in self.options.stages[self.progress.stage : -1]:
            assert stage.next is not None, "CurriculumOptions checks it"
            if stage.next.score is None and stage.next.plateau is None:
                needed += stage.next.steps or 0
        left = self.model._total_timesteps - self.model.num_timesteps
        if needed >= left:
            warnings.warn(
                f"The stages before the last one take at least {needed:,} steps, but the training has only {left:,}: "
                "it won't reach the last one.",
                stacklevel=2,
            )
