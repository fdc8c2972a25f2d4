"""The sections that a study can start from: the one that a training would use, and RL Zoo's own."""

from collections.abc import Mapping
from typing import Any

from rl_zoo3.exp_manager import ExperimentManager

from sb3_ext.common.usage_error import UsageError
from sb3_ext.zoo.config.check import check_training, training_section
from sb3_ext.zoo.config.files import Section, find_section
from sb3_ext.zoo.config.reader import Problem, raise_problems
from sb3_ext.zoo.models import check_names
from sb3_ext.zoo.registry import STOCK_EQUIVALENT

__all__ = ["current_section", "read_section", "stock_section"]


def read_section(
    algo: str,
    env_id: str,
    conf_file: str | None,
    log_folder: str,
    has_budget: bool,
    typed: Mapping[str, Any] | None = None,
) -> tuple[Section, list[Problem]]:
    """
    :param has_budget: whether the number of timesteps is known without the section
    :param typed: hyperparameters that change it
    :return: the section, and what is wrong with it
    :raises UsageError: when there is no such environment, algorithm or section
    """
    check_names(algo, env_id)
    section = training_section(conf_file, algo, env_id, ExperimentManager.is_atari(env_id), typed)
    return section, check_training(section, section.values, algo, env_id, has_budget, log_folder)


def current_section(algo: str, env_id: str, conf_file: str | None, log_folder: str, has_budget: bool) -> dict[str, Any]:
    """As :func:`read_section`. Anything wrong is an error."""
    section, problems = read_section(algo, env_id, conf_file, log_folder, has_budget)
    raise_problems(problems)
    return dict(section.values)


def stock_section(algo: str, env_id: str) -> dict[str, Any] | None:
    """RL Zoo's section of the algorithm that ours extends; ``None`` if it has none."""
    try:
        stock = STOCK_EQUIVALENT.get(algo, algo)
        return dict(find_section(None, stock, env_id, ExperimentManager.is_atari(env_id)).values)
    except UsageError:
        return None
