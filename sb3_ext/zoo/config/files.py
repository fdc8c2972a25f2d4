"""Which hyperparameter files there are, and which section of them a training uses."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from sb3_ext import hyperparams
from sb3_ext.common.names import nearest
from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.config.reader import ConfigFile, read_config
from sb3_ext.zoo.registry import STOCK_EQUIVALENT
from sb3_ext.zoo.upstream import FILES_WITHOUT_ALGORITHM, hyperparams_folder

__all__ = ["Section", "find_section", "hyperparameter_files", "is_yaml"]


def hyperparameter_files() -> dict[str, Path]:
    """The default file of each algorithm, ours first."""
    files = sorted(Path(hyperparams.__file__).parent.glob("*.yml")) + sorted(hyperparams_folder().glob("*.yml"))
    return {path.stem: path for path in files if path.stem not in FILES_WITHOUT_ALGORITHM}


def is_yaml(config: str) -> bool:
    """RL Zoo also takes Python files and packages."""
    return config.endswith((".yml", ".yaml"))


class Section(NamedTuple):
    """
    A section of a file.

    :param name: environment id, ``default`` or ``atari``
    :param file: of the section; ``None`` for Python files, whose values have no lines
    :param overridden: where values come from that are not the file's, by key
    """

    config: str
    name: str
    values: Any
    file: ConfigFile | None
    overridden: Mapping[str, str] = {}

    def where(self, path: Iterable[Any] = ()) -> str:
        """The place of a key: file and line, or flag."""
        keys = tuple(path)
        for n_keys in range(len(keys), 0, -1):
            name = ".".join(map(str, keys[:n_keys]))
            if name in self.overridden:
                return self.overridden[name]
        return self.config if self.file is None else self.file.where((self.name, *keys))

    def where_named(self, text: str) -> str:
        """The place of the first key that a text names, or of the section."""
        paths = map(self.path_to, re.findall(r"\w+", text))
        return self.where(next((path for path in paths if path is not None), ()))

    def path_to(self, key: str) -> tuple[Any, ...] | None:
        """The path to a key at any depth."""
        return _path_to(key, self.values)


def find_section(config: str | None, algo: str, env_id: str, is_atari: bool) -> Section:
    """
    :param config: RL Zoo's ``--conf-file``; ``None`` for the algorithm's own file, or RL Zoo's for the stock algorithm
        if ours has no section for the environment
    :raises UsageError: when there is no such file or section
    """
    default = str(hyperparameter_files()[algo])
    path = config or default
    file, sections = _read_sections(path, default)
    name = _section_name(sections, env_id, is_atari)
    stock_algo = STOCK_EQUIVALENT.get(algo)
    if path == default and stock_algo is not None and name != env_id and not (is_atari and name):
        stock_file = read_config(hyperparams_folder() / f"{stock_algo}.yml")
        if env_id in stock_file.sections:
            return Section(stock_file.path, env_id, stock_file.sections[env_id], stock_file)
    if name is None:
        if file is not None and not any(isinstance(values, dict) for values in sections.values()):
            first = str(next(iter(sections)))
            below = f"write the hyperparameters below `{env_id}:`, and indent them"
            raise UsageError(f"{file.where([first])}: {first!r} is not an environment: {below}.")
        missing = f"'atari' or {env_id!r}" if is_atari else f"{env_id!r} or 'default'"
        raise UsageError(f"{path} has no section {missing} for {algo}: {nearest(env_id, list(map(str, sections)))}")
    section = Section(path, name, sections[name], file)
    if not isinstance(section.values, dict):
        problem = f"{name} has the value {section.values!r}: expected a mapping of hyperparameters"
        raise UsageError(f"{section.where()}: {problem}, such as\n  n_timesteps: 100000\n  policy: MlpPolicy")
    return section


def _path_to(key: str, values: Any) -> tuple[Any, ...] | None:
    if isinstance(values, Mapping) and key in values:
        return (key,)
    items = values.items() if isinstance(values, Mapping) else enumerate(values) if isinstance(values, list) else ()
    found = ((name, _path_to(key, below)) for name, below in items)
    return next(((name, *path) for name, path in found if path is not None), None)


def _section_name(sections: Mapping[str, Any], env_id: str, is_atari: bool) -> str | None:
    names = (env_id, "atari") if is_atari else (env_id, "default")
    return next((name for name in names if name in sections), None)


def _read_sections(path: str, default: str) -> tuple[ConfigFile | None, Mapping[str, Any]]:
    advice = f"Check --conf-file, or leave it out to use {default}."
    if is_yaml(path):
        if not Path(path).is_file():
            raise UsageError(f"There is no file {path}.\n{advice}")
        file = read_config(path)
        return file, file.sections
    try:
        # As RL Zoo reads them
        sections = runpy.run_path(path)["hyperparams"] if path.endswith(".py") else import_module(path).hyperparams
    # A user's file or module may raise anything
    except Exception as error:
        reason = f"{type(error).__name__}: {error}"
        problem = f"--conf-file {path!r} is neither a .yml file nor a Python file or package with `hyperparams`"
        raise UsageError(f"{problem} ({reason}).\n{advice}") from error
    return None, sections
