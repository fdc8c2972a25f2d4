"""Commands to copy: train a run again, continue it, watch it.

RL Zoo saves the command line without its quotes. It also saves the arguments, which are complete and include a random
seed, so commands are built from these.
"""

import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sb3_ext.runs.record import RunRecord

__all__ = ["log_folder_of", "resume_command", "shown_path", "train_command", "watch_commands"]

#: Arguments of ``rl_zoo3.train`` that a run depends on: name, flag, and the value that needn't be written
_ARGUMENTS: tuple[tuple[str, str, Any], ...] = (
    ("algo", "--algo", None),
    ("env", "--env", None),
    ("seed", "--seed", -1),
    ("n_timesteps", "-n", -1),
    ("conf_file", "--conf-file", None),
    ("hyperparams", "--hyperparams", None),
    ("env_kwargs", "--env-kwargs", None),
    ("eval_env_kwargs", "--eval-env-kwargs", None),
    ("gym_packages", "--gym-packages", []),
    ("trained_agent", "-i", ""),
    ("vec_env", "--vec-env", "dummy"),
    ("eval_freq", "--eval-freq", 25000),
    ("eval_episodes", "--eval-episodes", 5),
    ("n_eval_envs", "--n-eval-envs", 1),
    ("save_freq", "--save-freq", -1),
    ("log_interval", "--log-interval", -1),
    ("num_threads", "--num-threads", -1),
    ("device", "--device", "auto"),
    ("study_name", "--study-name", None),
    ("storage", "--storage", None),
    ("trial_id", "--trial-id", None),
    ("log_folder", "-f", "logs"),
    ("track", "--track", False),
    ("wandb_project_name", "--wandb-project-name", "sb3"),
    ("wandb_entity", "--wandb-entity", None),
    ("wandb_tags", "--wandb-tags", []),
)


def train_command(run: RunRecord, **changes: Any) -> str | None:
    """The command that trains the run again, with some arguments changed; ``None`` without RL Zoo's arguments."""
    if not run.algo or not run.args.get("env"):
        return None
    args = {**run.args, **changes}
    words = ["python", "-m", "rl_zoo3.train"]
    for name, flag, default in _ARGUMENTS:
        value = args.get(name)
        if value is None or value == default or value == {}:
            continue
        words.append(flag)
        if value is True:
            continue
        if isinstance(value, Mapping):
            # RL Zoo evaluates what is after the colon
            words += [f"{key}:{entry!r}" for key, entry in value.items()]
        elif isinstance(value, (list, tuple)):
            words += [str(entry) for entry in value]
        else:
            words.append(str(value))
    return " ".join(map(_quoted, words))


def resume_command(folder: Path, done: int = 0, planned: int = 0, more: int | None = None) -> str:
    """
    The command that continues a run up to its planned steps, or beyond.

    :param more: steps to train after those that are done; default: as many again
    """
    total = done + (done if more is None else more)
    return f"sb3-ext resume {shlex.quote(shown_path(folder))}" + (f" -n {total}" if total > planned else "")


def watch_commands(run: RunRecord) -> list[tuple[str, str]]:
    """Descriptions of the run's models and the commands that play them; empty if RL Zoo would not find them."""
    place = log_folder_of(run)
    if place is None or not run.args.get("env"):
        return []
    words = ["python", "-m", "rl_zoo3.enjoy", "--algo", str(run.algo), "--env", str(run.args["env"])]
    words += ["-f", shown_path(place), "--exp-id", str(run.number)]
    if run.args.get("gym_packages"):
        words += ["--gym-packages", *map(str, run.args["gym_packages"])]
    commands = []
    if run.final_model is not None and (run.final_model.is_file() or run.training.get("state") != "failed"):
        commands.append(("the agent of the end", shlex.join(words)))
    if run.has_best_model:
        commands.append(("the best one by evaluation", shlex.join([*words, "--load-best"])))
    return commands


def log_folder_of(run: RunRecord) -> Path | None:
    """The log folder in which RL Zoo finds the run; ``None`` if it is not where RL Zoo put it."""
    folder = run.folder.resolve()
    if run.params_folder is None or run.number is None or folder.parent.name != run.algo:
        return None
    return folder.parent.parent if folder.name == f"{run.params_folder.name}_{run.number}" else None


def _quoted(word: str) -> str:
    """In double quotes where that is easier to read."""
    return f'"{word}"' if "'" in word and not set(word) & set('"$`\\!') else shlex.quote(word)


def shown_path(path: Path) -> str:
    """:return: the path relative to the current folder, if it is below"""
    resolved = path.resolve()
    here = Path.cwd().resolve()
    return os.path.relpath(resolved, here) if resolved.is_relative_to(here) else str(path)
