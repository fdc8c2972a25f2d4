"""Records an episode of each checkpoint in another process while training continues."""

import warnings
from collections.abc import Callable
from dataclasses import replace
from functools import partial

import cloudpickle  # type: ignore[import-untyped]
import gymnasium as gym
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.callbacks.checkpoints.options import CheckpointsOptions
from sb3_ext.runs.agents.checkpoint import Checkpoint, prune_videos
from sb3_ext.runs.agents.env_recipe import EnvRecipe
from sb3_ext.runs.play.video import Recorded, Recording, record
from sb3_ext.runs.processes.jobs import JobQueue, Outcome

__all__ = ["CheckpointRecorder", "MakeEnv"]

#: Makes an environment to play in: a ``gym.Env`` or a ``VecEnv``; may take a ``render_mode``
MakeEnv = Callable[..., gym.Env | VecEnv]

#: Seconds to wait before saying so
_PATIENCE = 1.0


class CheckpointRecorder:
    """``say`` shows a message from a level of ``verbose`` on."""

    def __init__(
        self, options: CheckpointsOptions, make_env: MakeEnv | str | None, say: Callable[[str, int], None]
    ) -> None:
        self._options = options
        self._make_env = make_env
        self._say = say
        self._packed_env: bytes | None = None
        self._wants_video = options.video is not False
        self._jobs = JobQueue()
        self._warned: set[str] = set()

    @property
    def is_busy(self) -> bool:
        return self._jobs.is_busy

    def prepare(self, training_env: VecEnv, make_env: MakeEnv | None) -> None:
        """``make_env`` makes an environment as for evaluation, if the run knows how."""
        self._make_env = self._make_env or make_env
        if self._packed_env is not None or not (self._options.table or self._wants_video):
            return
        try:
            self._packed_env = cloudpickle.dumps(self._factory(training_env))
        # Pickling runs code of the environments, which may raise anything
        except Exception as error:
            reason = str(error).partition(". ")[0].rstrip(".")
            self._warn(
                f"Checkpoints get no tables and no videos, because there is no environment to play in: {reason}. Pass "
                "make_env=… to Checkpoints, a function that makes an environment like in training, or switch them off "
                "with table=False and video=False."
            )

    def _factory(self, training_env: VecEnv) -> MakeEnv:
        if self._make_env is None:
            return partial(_make_like, EnvRecipe.of(training_env))
        if isinstance(self._make_env, str):
            return partial(_make_like, EnvRecipe(gym.spec(self._make_env), (), ()))
        return self._make_env

    def record(self, checkpoint: Checkpoint, step: int, algorithm: type[BaseAlgorithm], deterministic: bool) -> None:
        """Record a checkpoint that was just saved."""
        if self._packed_env is None or not (self._options.table or self._wants_video):
            return
        job = Recording(
            checkpoint,
            step,
            algorithm,
            self._packed_env,
            table=self._options.table,
            video=self._wants_video,
            deterministic=deterministic,
            seed=self._options.seed,
            max_steps=self._options.max_steps,
        )
        self._jobs.submit(checkpoint.name, record, job)

    def tell_news(self) -> None:
        """Warn about what failed or was left out."""
        if self._jobs.n_dropped:
            self._warn(
                "Recording can't keep up: checkpoints that are replaced while they wait have no table or video. Save "
                "less often (every), or switch the video off (video: false)."
            )
        for outcome in self._jobs.outcomes():
            self._tell(outcome)

    def _tell(self, outcome: Outcome) -> None:
        if outcome.error is not None:
            self._warn(f"{outcome.key} was saved, but its table and video could not be made: {outcome.error}")
            return
        recorded: Recorded = outcome.result
        if recorded.no_video is not None:
            self._wants_video = False
            if self._options.video:
                self._warn(f"There are no videos, because the environment can't be rendered: {recorded.no_video}")
            else:
                self._say(f"No videos of checkpoints: the environment can't be rendered: {recorded.no_video}", 1)
        if recorded.video is not None and self._options.keep is not None:
            kind = recorded.video.name.partition("-")[0]
            prune_videos(recorded.video.parent.parent, kind, self._options.keep)
        if recorded.score is not None:
            shown = recorded.video or recorded.table
            self._say(f"{outcome.key}: an episode with a score of {recorded.score:g}, {shown}", 2)

    def wait(self) -> None:
        """Wait until everything is recorded, or for the seconds of the option ``wait``."""
        try:
            if not self._jobs.wait(min(_PATIENCE, self._options.wait)):
                limit = self._options.wait
                self._say(f"Recording the last checkpoints, for at most {limit} s (Ctrl-C: don't wait)", 0)
                self._jobs.wait(limit)
        except KeyboardInterrupt:
            pass
        self.tell_news()
        if self.is_busy:
            self._warn(
                "Recording the last checkpoints was stopped: some have no table or no video. Training waits for "
                f"{self._options.wait} s (wait)."
            )
            self._jobs.close()

    def stop(self) -> None:
        """Give up what is not recorded yet, with a warning."""
        self.tell_news()
        if self.is_busy:
            self._warn("Recording stopped with the training: the last checkpoints have no table or video.")
        n_dropped = self._jobs.n_dropped
        if n_dropped:
            self._jobs.n_dropped = 0
            self._warn(f"{n_dropped} checkpoints have no table or video: those before them were still being recorded.")
        self._jobs.close()
        self._jobs.outcomes()

    def _warn(self, text: str) -> None:
        if text not in self._warned:
            self._warned.add(text)
            warnings.warn(text, stacklevel=2)


def _make_like(recipe: EnvRecipe, render_mode: str | None = None) -> VecEnv:
    if render_mode is None:
        return recipe()
    spec = replace(recipe.spec, kwargs={**recipe.spec.kwargs, "render_mode": render_mode})
    return replace(recipe, spec=spec)()
