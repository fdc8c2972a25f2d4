"""Lists environments and the algorithms tuned for them, and finds them by name.

Reads only Gymnasium's registry and YAML files. Makes no environment, imports neither torch nor SB3, so it is quick.
"""

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

from sb3_ext.common.names import check_choice
from sb3_ext.envs import OUR_IDS
from sb3_ext.zoo.config.files import hyperparameter_files
from sb3_ext.zoo.registry import STOCK_EQUIVALENT
from sb3_ext.zoo.upstream import ENV_PACKAGES, GENERAL_SECTIONS

__all__ = ["EnvEntry", "import_packages", "list_environments", "search", "tuned_algorithms", "tuned_for"]


@dataclass(frozen=True)
class EnvEntry:
    """
    :param ours: whether this package registers it
    :param registered: whether Gymnasium knows it; some ids are only in hyperparameter files
    :param tuned: algorithms with hyperparameters for it, ours first, and their section: the id or ``atari``
    """

    env_id: str
    ours: bool
    registered: bool
    threshold: float | None
    max_steps: int | None
    tuned: Mapping[str, str]

    def as_dict(self, spaces: Mapping[str, str] | None = None) -> dict[str, Any]:
        """
        For JSON.

        :param spaces: fields of :class:`~sb3_ext.zoo.env_spaces.EnvSpaces`, if they are known
        """
        return {
            "id": self.env_id,
            "ours": self.ours,
            "registered": self.registered,
            **{key: value or None for key, value in (spaces or {}).items()},
            "reward_threshold": self.threshold,
            "max_episode_steps": self.max_steps,
            "tuned": dict(self.tuned),
        }


def import_packages(more: Iterable[str] = ()) -> list[str]:
    """Let packages that RL Zoo knows, and ``more``, register environments. Returns a line for each failure."""
    problems = []
    for name in (*ENV_PACKAGES, *more):
        if name in ENV_PACKAGES and importlib.util.find_spec(name) is None:
            continue
        try:
            importlib.import_module(name)
        # Someone else's package may raise anything; the others are still listed
        except Exception as error:
            problems.append(f"{name} can't be imported: {type(error).__name__}: {error}")
    return problems


def list_environments() -> list[EnvEntry]:
    """All environments of Gymnasium's registry and of hyperparameter files, sorted by id."""
    sections = _sections()
    named = {env_id for of_algo in sections.values() for env_id in of_algo if env_id not in GENERAL_SECTIONS}
    return [_entry(env_id, sections) for env_id in sorted({*gym.registry, *named}, key=_sort_key)]


def tuned_algorithms() -> list[str]:
    """Algorithms with a hyperparameter file, ours first."""
    return list(_sections())


def tuned_for(algo: str, entries: Iterable[EnvEntry]) -> tuple[list[EnvEntry], list[EnvEntry]]:
    """
    :return: environments with hyperparameters for an algorithm; and those of them with a section of their own: all
        Atari games share one
    """
    check_choice("--algo", algo, tuned_algorithms())
    # If our file has no section for an environment, RL Zoo's for the stock algorithm is used
    names = {algo, STOCK_EQUIVALENT.get(algo, algo)}
    tuned = [entry for entry in entries if names & set(entry.tuned)]
    return tuned, [entry for entry in tuned if any(entry.tuned.get(name) == entry.env_id for name in names)]


def search(entries: Sequence[EnvEntry], words: Sequence[str]) -> tuple[list[EnvEntry], bool]:
    """
    :param words: the id must contain all of them, in any case; a word with ``*`` or ``?`` must match the whole id
    :return: the matches and ``True``, or else ids with a similar spelling and ``False``
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
    """Without namespace and version, so that ``pnog`` finds ``ALE/Pong-v5``."""
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
    return {algo: _read(path) for algo, path in hyperparameter_files().items()}


def _read(path: Path) -> dict[str, Any]:
    # Ten times faster than the pure Python loader
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with path.open(encoding="utf-8") as file:
        return yaml.load(file, Loader=loader) or {}
