"""Which environments there are, which algorithms have hyperparameters for them, and how to find one by its name.

Everything here is read from Gymnasium's registry and from YAML files: no environment is made, and neither torch nor SB3
is imported, so that a list is there at once.
"""

from __future__ import annotations

import difflib
import fnmatch
import functools
import importlib.util
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium as gym
import yaml

from sb3_ext import hyperparams
from sb3_ext.envs import OUR_IDS

__all__ = ["EnvEntry", "import_packages", "list_environments", "search", "tuned_algorithms"]

#: Packages that register environments when they are imported, as RL Zoo's commands do with those that are installed
_PACKAGES = (
    *("custom_envs", "gym_donkeycar", "highway_env", "minigrid", "panda_gym", "pybullet_envs_gymnasium"),
    "rocket_lander_gym",
)
#: Sections of a hyperparameter file that are for no environment in particular
_GENERAL = ("default", "atari")
#: RL Zoo has a file for it from the time when it was an algorithm
_NO_ALGORITHMS = ("her",)


@dataclass(frozen=True)
class EnvEntry:
    """
    One environment.

    :param env_id: its id
    :param ours: whether this package registers it
    :param registered: whether Gymnasium knows it; some ids are only in hyperparameter files
    :param threshold: mean reward from which on it counts as solved
    :param max_steps: after which an episode is cut
    :param tuned: algorithms with hyperparameters for it, ours first, and the section that has them: the id or ``atari``
    """

    env_id: str
    ours: bool
    registered: bool
    threshold: float | None
    max_steps: int | None
    tuned: Mapping[str, str]


def import_packages(more: Iterable[str] = ()) -> list[str]:
    """
    Let installed packages register their environments.

    :param more: packages beside those that RL Zoo knows
    :return: what went wrong, a line each
    """
    problems = []
    for name in (*_PACKAGES, *more):
        if name in _PACKAGES and importlib.util.find_spec(name) is None:
            continue
        try:
            importlib.import_module(name)
        except Exception as error:
            problems.append(f"{name} can't be imported: {type(error).__name__}: {error}")
    return problems


def list_environments() -> list[EnvEntry]:
    """:return: all environments, sorted by id: Gymnasium's registry, and ids that only hyperparameter files have"""
    sections = _sections()
    named = {env_id for of_algo in sections.values() for env_id in of_algo if env_id not in _GENERAL}
    return [_entry(env_id, sections) for env_id in sorted({*gym.registry, *named}, key=_sort_key)]


def tuned_algorithms() -> list[str]:
    """:return: algorithms that have a hyperparameter file, ours first"""
    return list(_sections())


def search(entries: Sequence[EnvEntry], words: Sequence[str]) -> tuple[list[EnvEntry], bool]:
    """
    :param entries: where to look
    :param words: all of them must be in the id, in whatever case; a word with ``*`` or ``?`` must match all of it
    :return: what has them, or else what is spelled nearly like them; and whether it is the former
    """
    found = [entry for entry in entries if all(_matches(entry.env_id, word) for word in words)]
    if found:
        return found, True
    wanted = _letters(" ".join(words))
    by_name: dict[str, list[EnvEntry]] = {}
    for entry in entries:
        for name in {_letters(entry.env_id), _letters(_bare_name(entry.env_id))}:
            by_name.setdefault(name, []).append(entry)
    close = difflib.get_close_matches(wanted, by_name, n=8, cutoff=0.7)
    return list({entry.env_id: entry for name in close for entry in by_name[name]}.values()), False


def _matches(env_id: str, word: str) -> bool:
    env_id, word = env_id.lower(), word.lower()
    return fnmatch.fnmatchcase(env_id, word) if "*" in word or "?" in word else word in env_id


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _bare_name(env_id: str) -> str:
    """Without namespace and version: ``ALE/Pong-v5`` is found by ``pnog`` too."""
    return re.sub(r"-v\d+$", "", env_id.rpartition("/")[2])


def _sort_key(env_id: str) -> tuple[str, str]:
    namespace, _, name = env_id.rpartition("/")
    return namespace.lower(), name.lower()


def _entry(env_id: str, sections: dict[str, dict[str, Any]]) -> EnvEntry:
    spec = gym.registry.get(env_id)
    # RL Zoo's own test for an Atari game
    is_atari = spec is not None and "AtariEnv" in str(spec.entry_point)
    return EnvEntry(
        env_id,
        ours=env_id in OUR_IDS,
        registered=spec is not None,
        threshold=None if spec is None else spec.reward_threshold,
        max_steps=None if spec is None else spec.max_episode_steps,
        tuned={
            algo: env_id if env_id in of else "atari"
            for algo, of in sections.items()
            if env_id in of or (is_atari and "atari" in of)
        },
    )


@functools.cache
def _sections() -> dict[str, dict[str, Any]]:
    """The hyperparameter files of all algorithms; each is read once."""
    files = sorted(Path(hyperparams.__file__).parent.glob("*.yml"))
    # Found, not imported: RL Zoo imports torch
    zoo = importlib.util.find_spec("rl_zoo3")
    if zoo is not None and zoo.submodule_search_locations:
        files += sorted((Path(zoo.submodule_search_locations[0]) / "hyperparams").glob("*.yml"))
    return {path.stem: _read(path) for path in files if path.stem not in _NO_ALGORITHMS}


def _read(path: Path) -> dict[str, Any]:
    # Ten times as fast as the loader in Python
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with path.open(encoding="utf-8") as file:
        return yaml.load(file, Loader=loader) or {}
