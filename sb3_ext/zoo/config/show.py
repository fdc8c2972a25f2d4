"""What a training would use, and where each value comes from."""

import argparse
import contextlib
import io
from collections.abc import Iterator
from typing import Any, NamedTuple

import rl_zoo3.train  # noqa: F401  registers environments; the import hook registers us
from rl_zoo3 import exp_manager
from rl_zoo3.utils import ALGOS

from sb3_ext.zoo.config.schema import section_parameters
from sb3_ext.zoo.config.write import section_text
from sb3_ext.zoo.options import OUR_DEFAULTS
from sb3_ext.zoo.registry import ALGORITHMS

__all__ = ["Setting", "show_section", "show_settings"]


class Setting(NamedTuple):
    """:param source: file and line, ``-params``, a trial, or whose default it is"""

    key: str
    value: Any
    source: str


def show_settings(algo: str, env_id: str, **given: Any) -> list[Setting]:
    """
    :param given: further arguments of RL Zoo's ``ExperimentManager``: config, hyperparams, storage, …
    :raises UsageError: when the training would not start
    """
    manager = _manager(algo, env_id, given)
    with contextlib.redirect_stdout(io.StringIO()):
        hyperparams, section = manager.read_with_sources()
    parameters = section_parameters(ALGOS[algo])
    found = []
    for key, parameter in parameters.items():
        if key in hyperparams:
            found.append(Setting(key, hyperparams[key], section.where((key,))))
        elif parameter.has_default:
            found.append(Setting(key, parameter.default, f"default of {ALGOS[algo].__name__}"))
    ext = hyperparams.get("ext") or {}
    return [*found, *_ext_settings(ext, section, OUR_DEFAULTS if algo in ALGORITHMS else {})]


def show_section(algo: str, env_id: str, **given: Any) -> str:
    """As :func:`show_settings`: the section that trains the same, for a hyperparameter file."""
    with contextlib.redirect_stdout(io.StringIO()):
        _, section = _manager(algo, env_id, given).read_hyperparameters()
    return section_text(env_id, algo, section)


def _manager(algo: str, env_id: str, given: dict[str, Any]) -> Any:
    return exp_manager.ExperimentManager(argparse.Namespace(), algo, env_id, "logs", **given)


def _ext_settings(ext: dict[str, Any], section: Any, defaults: dict[str, Any]) -> Iterator[Setting]:
    for key, value in {**defaults, **ext}.items():
        yield Setting(f"ext: {key}", value, section.where(("ext", key)) if key in ext else "default of sb3-ext")
