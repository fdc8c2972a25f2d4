"""Tools that start, watch, stop and resume trainings."""

import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field

from sb3_ext.common.usage_error import UsageError
from sb3_ext.mcp.access import Access
from sb3_ext.mcp.client_values import parameter_words, plain_hyperparams
from sb3_ext.mcp.helper import Helper
from sb3_ext.mcp.inside import check_inside, find_inside
from sb3_ext.mcp.jobs import Request, check_resumed, check_start
from sb3_ext.mcp.parameters import DEFAULT_ALGO, Algo, EnvId, Hyperparams, RunOrModel, Seed, Steps
from sb3_ext.mcp.trainings import Trainings
from sb3_ext.runs.find_run import split_checkpoint
from sb3_ext.runs.record import read_record

__all__ = ["TrainingTools"]

TrainingName = Annotated[str, Field(description="As start_training returned it, such as `training_1`")]


class TrainingTools:
    """Each public method is a tool; its docstring is the description."""

    def __init__(self, access: Access, helper: Helper, trainings: Trainings) -> None:
        self._access = access
        self._helper = helper
        self._trainings = trainings

    def start_training(
        self,
        env: EnvId,
        algo: Algo = DEFAULT_ALGO,
        steps: Steps = None,
        seed: Annotated[Seed | None, Field(description="Default: random")] = None,
        hyperparams: Hyperparams | None = None,
    ) -> dict[str, Any]:
        """Start a training in the background, with tuned hyperparameters and your changes to them. Mistakes are
        reported before it starts. Then call training_status, which can wait for it. The training ends when this server
        does; resume_training continues it."""
        self._trainings.check_room()
        self._check_steps(steps or 0)
        log_folder = self._access.log_folder
        plain = plain_hyperparams(hyperparams or {})
        request = Request(algo, env, plain, steps, str(log_folder), self._access.packages)
        planned, typed = self._helper.call(check_start, request)
        self._check_steps(planned)
        check_inside(log_folder / algo, log_folder)
        words = ["train", "--algo", algo, "--env", env, "-n", str(planned), "-f", str(log_folder), "--verbose", "0"]
        words += [] if seed is None else ["--seed", str(seed)]
        words += ["--gym-packages", *self._access.packages] if self._access.packages else []
        return self._start([*words, *parameter_words(typed)])

    def resume_training(
        self, run: RunOrModel, steps: Steps = None, hyperparams: Hyperparams | None = None
    ) -> dict[str, Any]:
        """Continue a training of the log folder that was stopped, interrupted or killed, in the background; or train a
        finished one further, with more `steps` in all. It continues from its latest state, or from the model that you
        name. Then call training_status."""
        self._trainings.check_room()
        name, model = split_checkpoint(run)
        folder = find_inside(name, self._access.log_folder)
        _check_writes_inside(folder)
        plain = plain_hyperparams(hyperparams or {})
        self._check_steps(self._helper.call(check_resumed, str(folder), model, plain, steps))
        words = ["resume", str(folder) if model is None else f"{folder}@{model}", "-f", str(self._access.log_folder)]
        words += [] if steps is None else ["-n", str(steps)]
        return self._start([*words, *parameter_words(plain)])

    def training_status(
        self,
        training: Annotated[TrainingName | None, Field(description="Default: all that this server has started")] = None,
        wait_seconds: Annotated[int, Field(ge=0, le=50, description="Wait until it ends, but no longer")] = 0,
    ) -> dict[str, Any]:
        """Show how far a training is: state, run, steps, scores, and the end of what it printed. `run` is the name for
        read_report, read_alerts and read_curves, which work while it trains. With wait_seconds it answers when the
        training has ended, or after this time."""
        if training is None:
            return {
                "trainings": [self._trainings.status(self._trainings.get(name)) for name in self._trainings.names()]
            }
        found = self._trainings.get(training)
        found.wait(wait_seconds)
        return self._trainings.status(found)

    def stop_training(self, training: TrainingName) -> dict[str, Any]:
        """Stop a training that this server has started. It saves its state and writes its report, and can be resumed.
        This may take some seconds. If it is still running then, a second call ends it at once."""
        return self._trainings.status(self._trainings.stop(training))

    def _start(self, words: list[str]) -> dict[str, Any]:
        training = self._trainings.start(words)
        return {"training": training.name, "state": "starting", "command": shlex.join(training.command)}

    def _check_steps(self, steps: int) -> None:
        if steps > self._access.max_steps:
            limit = f"the limit of this server is {self._access.max_steps:,} (--max-steps)"
            raise UsageError(f"steps: {steps:,} timesteps are too many for one training: {limit}. Give `steps`.")


def _check_writes_inside(folder: Path) -> None:
    """A user's own training may log to W&B, MLflow or TensorBoard: these write elsewhere."""
    record = read_record(folder)
    ext = record.config.get("ext")
    tracks = record.args.get("track") or (isinstance(ext, Mapping) and ext.get("tracking"))
    if tracks or record.args.get("tensorboard_log"):
        where = "a tracker" if tracks else "TensorBoard"
        raise UsageError(f"{folder.name} logs to {where}, outside the log folder: resume it on the command line.")
