"""Continues a run of RL Zoo's command in its folder: ``sb3-ext resume RUN``, or ``ext: {resume: RUN}`` in a section."""

from __future__ import annotations

import argparse
import os
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from pydantic import BeforeValidator
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.callbacks.checkpoints.options import CheckpointsOptions
from sb3_ext.common.algorithm import ExtAlgorithm
from sb3_ext.common.clean_text import say
from sb3_ext.common.options import Options, Text
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.bundle import find_bundle
from sb3_ext.runs.callback_states import continued_log_interval
from sb3_ext.runs.facts import RunFacts
from sb3_ext.runs.files import atomic_write, remove_unfinished
from sb3_ext.runs.find_run import find_run, split_checkpoint
from sb3_ext.runs.registry import REGISTRY_FILE
from sb3_ext.runs.resume import TrainingState, read_state, resume_model
from sb3_ext.runs.rewind import rewind_logs
from sb3_ext.runs.wandb_run import tracking_environment
from sb3_ext.zoo.command_line import run_command
from sb3_ext.zoo.train_flags import fold_ext

__all__ = [
    "Resume",
    "ResumeField",
    "ResumeOptions",
    "check_resume",
    "keep_counting",
    "requested_section",
    "resume_run",
    "split_checkpoint",
]

#: Parameters that weights and optimizer were made for
_FIXED = ("policy", "policy_kwargs")
#: Of a first training, which its section has or which make no sense for a resume: a flag, and whether it has a value
_FLAGS_OF_START: dict[tuple[str, ...], str | None] = {
    ("-n", "--n-timesteps"): "?",
    ("-i", "--trained-agent"): "?",
    ("-conf", "--conf-file"): "?",
    ("-params", "--hyperparams"): "*",
    ("-uuid", "--uuid"): None,
    ("--seed",): "?",
    ("--trial-id",): "?",
    ("--study-name",): "?",
    ("--storage",): "?",
}


class ResumeOptions(Options):
    """
    :param run: a run's name (``@last``, an id, a path), and optionally a checkpoint of it: ``@last@best``
    :param schedules: if there are more timesteps than before: ``stretch`` schedules over all of them, or ``continue``
        with the old ones, whose last values then stay
    :param optimizer: restore the optimizer's momentum too
    """

    run: Text
    schedules: Literal["stretch", "continue"] = "stretch"
    optimizer: bool = True


ResumeField = Annotated[
    ResumeOptions | None, BeforeValidator(lambda raw: {"run": raw} if isinstance(raw, str) else raw)
]


class Resume:
    """A run that is about to continue."""

    def __init__(self, options: ResumeOptions, algo: str, env_id: str, log_folder: str) -> None:
        name, checkpoint = split_checkpoint(options.run)
        self.options, self.folder = options, find_run(name, log_folder)
        self.facts = RunFacts.read(self.folder)
        if (self.facts.algo, self.facts.env_id) != (algo, env_id):
            raise UsageError(
                f"{self.folder} is a run of {self.facts.algo} on {self.facts.env_id}: it can't be resumed by {algo} on "
                f"{env_id}.\nTo take over its weights, use ext: {{init_from: {name}}}."
            )
        if self.facts.is_alive:
            raise UsageError(f"{self.folder} is still training (process {self.facts.pid}). Stop it first.")
        self.bundle = find_bundle(self.folder, checkpoint)
        self._changed: set[str] = set()

    @property
    def log_folder(self) -> Path:
        """The folder whose registry lists the run: it may have been copied, or be resumed from elsewhere."""
        above = self.folder.resolve().parents
        return next((folder for folder in above[:3] if (folder / REGISTRY_FILE).is_file()), above[1])

    @cached_property
    def state(self) -> TrainingState | None:
        return read_state(self.bundle)

    def compare(self, section: Mapping[str, Any]) -> None:
        """Find what a section, as it is written, has other than the run."""
        before = saved_section(self.folder)
        self._changed = {name for name, value in section.items() if name not in before or before[name] != value}
        for name in self._changed & set(_FIXED):
            raise UsageError(
                f"{name}={section[name]!r} can't change in a resume: the weights are those of another network.\n"
                "Start a new run with ext: {init_from: …} to take over what fits."
            )

    def check(self, checkpoints: CheckpointsOptions | None) -> None:
        """Checkpoints restore the state: without them, it would silently be lost."""
        if self.bundle.state is not None and (checkpoints is None or checkpoints.resume_seconds is None):
            raise UsageError(
                f"The state of {self.folder} can't be restored while checkpoints or their resume_seconds are off.\n"
                "Set ext: {checkpoints: true}, or resume from a model alone: RUN@best."
            )

    def save_section(self, section: Mapping[str, Any]) -> None:
        """For the next resume."""
        ext = {key: value for key, value in (section.get("ext") or {}).items() if key != "resume"}
        section = OrderedDict({**section, "ext": ext} if ext else {k: v for k, v in section.items() if k != "ext"})
        with atomic_write(_config_file(self.folder)) as unfinished:
            unfinished.write_text(yaml.dump(section), encoding="utf-8")

    def rewind(self) -> None:
        """Remove what was logged after the state was captured: it will be logged again."""
        remove_unfinished(self.folder)
        if self.state is not None:
            rewind_logs(self.folder, self.state.logs)

    def remaining(self, total: int) -> int:
        """:param total: timesteps that the run is to have in all"""
        if total <= self.bundle.step:
            raise UsageError(
                f"{self.folder} has trained for {self.bundle.step:,} of {total:,} timesteps: there is nothing left.\n"
                "To train it further, give the number of timesteps in all: -n " + str(2 * self.bundle.step)
            )
        return total - self.bundle.step

    def load(
        self, algorithm: type[BaseAlgorithm], hyperparams: Mapping[str, Any], env: VecEnv, total: int, **arguments: Any
    ) -> BaseAlgorithm:
        """:param hyperparams: all of the section, as the algorithm takes them; those that changed replace the saved"""
        changed = {name: value for name, value in hyperparams.items() if name in self._changed}
        if changed:
            say(f"Changed since: {', '.join(f'{name}={value}' for name, value in changed.items())}")
        fresh = not self.options.optimizer
        model = resume_model(algorithm, self.bundle, env, fresh_optimizer=fresh, **changed, **arguments)
        self._set_schedules(model, total)
        if self.bundle.state is None:
            say(f"{self.bundle.source} has no state beside it: counters and schedules go on, episodes start again.")
        return model

    def _set_schedules(self, model: BaseAlgorithm, total: int) -> None:
        before = self.facts.total_timesteps if self.state is None else self.state.total_timesteps
        if total <= before:
            return
        if not isinstance(model, ExtAlgorithm):
            if self.options.schedules == "continue":
                raise UsageError(
                    f"--schedules continue: {type(model).__name__} always stretches its schedules over all timesteps.\n"
                    "Use an algorithm of sb3-ext (ppo_ext, …), or constant hyperparameters (-params)."
                )
            return
        if self.options.schedules == "continue":
            model.schedule_timesteps = model.schedule_timesteps or before
            how = f"end at {model.schedule_timesteps:,} steps as before (stretch: over all {total:,})"
        else:
            model.schedule_timesteps = None
            how = f"stretch over all {total:,} steps (continue: end at {before:,} as before)"
        if model.has_schedules:
            say(f"Schedules {how}.")


def keep_counting(model: BaseAlgorithm, state: TrainingState | None) -> None:
    """RL Zoo starts to count timesteps from 0 whatever model it trains: change the call of ``learn`` that it makes."""
    learn = model.learn

    def learn_on(total_timesteps: int, **kwargs: Any) -> Any:
        del model.learn  # or it would be saved with the model
        if state is not None and kwargs.get("log_interval", 0) is not None:
            given = kwargs.pop("log_interval", None)
            kwargs["log_interval"] = continued_log_interval(model, state.callbacks, given)
        return learn(total_timesteps, reset_num_timesteps=False, **kwargs)

    model.learn = learn_on  # type: ignore[method-assign,assignment]


def saved_section(folder: Path) -> dict[str, Any]:
    """The section that a run was trained with, command line included, as RL Zoo saved it."""
    with _config_file(folder).open(encoding="utf-8") as file:
        # As RL Zoo reads it: the section may name classes. The model beside it is a pickle too
        return dict(yaml.load(file, Loader=yaml.UnsafeLoader))


def _config_file(folder: Path) -> Path:
    found = next(iter(sorted(folder.glob("*/config.yml"))), None)
    if found is None:
        raise UsageError(f"{folder} has no config.yml of RL Zoo, which says how it was trained.")
    return found


#: What `sb3-ext resume` asks the next training of this process to continue
_requested: ResumeOptions | None = None


def requested_section(custom: Mapping[str, Any] | None) -> OrderedDict[str, Any] | None:
    """The section of a run that this process was asked to resume, with ``custom`` hyperparameters."""
    if _requested is None:
        return None
    section = _changed_section(Path(split_checkpoint(_requested.run)[0]), custom or {})
    section["ext"]["resume"] = _requested.model_dump()
    return OrderedDict(sorted(section.items()))


def _changed_section(folder: Path, custom: Mapping[str, Any]) -> dict[str, Any]:
    """The saved section with changes, and without what is for the start of a run."""
    section = fold_ext({**saved_section(folder), **custom})
    section["ext"] = {key: value for key, value in (section.get("ext") or {}).items() if key != "init_from"}
    return section


def resume_run(options: ResumeOptions, log_folder: str, arguments: Sequence[str] = ()) -> None:
    """
    Run RL Zoo's ``train`` again as the run was started, from its state.

    :param arguments: further ones of RL Zoo's command line, which override those of the start
    """
    global _requested
    name, checkpoint = split_checkpoint(options.run)
    folder = find_run(name, log_folder)
    facts = _repeatable_facts(folder)
    run = str(folder) if checkpoint is None else f"{folder}@{checkpoint}"
    _requested = options.model_copy(update={"run": run})
    os.environ.update(tracking_environment(folder))  # RL Zoo's --track starts a run of W&B before it reads the section
    start = ["--seed", str(facts.seed), "-n", str(facts.total_timesteps)]
    try:
        run_command("train", [*_without_start(facts.arguments), *start, *arguments])
    finally:
        _requested = None


def check_resume(
    options: ResumeOptions, log_folder: str, custom: Mapping[str, Any], total: int | None
) -> tuple[RunFacts, dict[str, Any], int]:
    """
    What :func:`resume_run` finds out when it has started.

    :param custom: hyperparameters to change
    :param total: timesteps that the run is to have in all; default: as planned
    :return: its facts, its section with the changes, and the timesteps left
    :raises UsageError: when the run can't be resumed
    """
    facts = _repeatable_facts(find_run(split_checkpoint(options.run)[0], log_folder))
    resume = Resume(options, facts.algo, facts.env_id or "", log_folder)
    section = _changed_section(resume.folder, custom)
    resume.compare(section)
    return facts, section, resume.remaining(facts.total_timesteps if total is None else total)


def _repeatable_facts(folder: Path) -> RunFacts:
    facts = RunFacts.read(folder)
    if not facts.arguments:
        raise UsageError(
            f"{folder} was not trained by RL Zoo's command with sb3-ext, so there is no command to repeat.\n"
            "Write its name under ext: {resume: …} and train with RL Zoo's command."
        )
    return facts


def _without_start(arguments: Sequence[str]) -> list[str]:
    parser = argparse.ArgumentParser(add_help=False)
    for flags, n_values in _FLAGS_OF_START.items():
        if n_values is None:
            parser.add_argument(*flags, action="store_true")
        else:
            parser.add_argument(*flags, nargs=n_values)
    return parser.parse_known_args(list(arguments))[1]
