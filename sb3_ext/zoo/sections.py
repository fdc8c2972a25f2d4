"""Finds and checks the section of a hyperparameter file that a training reads."""

import inspect
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import rl_zoo3.exp_manager
import yaml
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.policies import BasePolicy

from sb3_ext.common.arguments import read_number
from sb3_ext.common.clean_text import say
from sb3_ext.common.import_path import import_class
from sb3_ext.common.names import check_keywords, nearest
from sb3_ext.common.usage_error import UsageError
from sb3_ext.hyperparams import hyperparams_file
from sb3_ext.zoo.registry import STOCK_EQUIVALENT
from sb3_ext.zoo.upstream import SECTION_KEYS, hyperparams_folder

__all__ = ["check_section", "file_with_section", "files_in_utf8"]


def file_with_section(config: str, algo: str, env_id: str, is_atari: bool) -> str:
    """:return: that file, or RL Zoo's for the stock algorithm if our own file has no section for the environment"""
    if not config.endswith((".yml", ".yaml")):
        return config  # Python files and packages: their keys can be anything
    if not Path(config).is_file():
        default = hyperparams_file(algo)
        raise UsageError(f"There is no file {config}.\nCheck --conf-file, or leave it out to use {default}.")
    sections = _read_sections(config)
    if env_id in sections or (is_atari and "atari" in sections):
        return config
    stock_file = _stock_file(config, algo, env_id)
    if stock_file is not None:
        return stock_file
    if "default" not in sections or is_atari:
        missing = f"'atari' or {env_id!r}" if is_atari else f"{env_id!r} or 'default'"
        raise ValueError(f"{config} has no section {missing} for {algo}: {nearest(env_id, sections)}")
    return config


def _stock_file(config: str, algo: str, env_id: str) -> str | None:
    """RL Zoo's file with a tuned section for the stock algorithm, if the section is missing in our own file."""
    stock_algo = STOCK_EQUIVALENT.get(algo)
    if stock_algo is None or config != str(hyperparams_file(algo)):
        return None
    stock_file = hyperparams_folder() / f"{stock_algo}.yml"
    if env_id not in _read_sections(stock_file):
        return None
    say(f"No section for {env_id} in {config}: using RL Zoo's for {stock_algo}")
    return str(stock_file)


def check_section(hyperparams: dict[str, Any], algorithm: type[BaseAlgorithm], where: str) -> None:
    """
    Find mistyped keys, and missing ones that RL Zoo fails without in ways that don't explain it. ``n_timesteps``
    becomes a number.
    """
    parameters = inspect.signature(algorithm.__init__).parameters
    check_keywords(algorithm.__name__, hyperparams, [*parameters, *SECTION_KEYS])
    for name, example in (("n_timesteps", "1000000"), ("policy", "MlpPolicy")):
        if name not in hyperparams:
            raise ValueError(f"{where} needs {name}, such as {example}.")
    if "." in hyperparams["policy"]:
        import_class(f"{where}: policy", hyperparams["policy"], BasePolicy)  # RL Zoo's error has no reason
    hyperparams["n_timesteps"] = read_number("n_timesteps", hyperparams["n_timesteps"])


@contextmanager
def files_in_utf8() -> Iterator[None]:
    """RL Zoo reads hyperparameter files in the machine's encoding and fails at a comment that is not ASCII."""
    module: Any = rl_zoo3.exp_manager
    module.open = partial(open, encoding="utf-8")
    try:
        yield
    finally:
        del module.open


def _read_sections(path: str | Path) -> dict[str, Any]:
    sections = yaml.safe_load(Path(path).read_text(encoding="utf-8"))
    if not isinstance(sections, dict):
        raise ValueError(f"{path} has no sections: a hyperparameter file maps environment ids to hyperparameters.")
    return sections
