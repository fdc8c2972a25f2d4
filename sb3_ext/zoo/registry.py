"""Our algorithms under the names that RL Zoo's ``--algo`` takes."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from sb3_ext.common.names import check_choice

if TYPE_CHECKING:
    from stable_baselines3.common.base_class import BaseAlgorithm

__all__ = ["ALGORITHMS", "STOCK_EQUIVALENT", "algorithm_class", "register_algorithms"]

#: Module and class by ``--algo`` name
ALGORITHMS = {
    "a2c_ext": ("sb3_ext.a2c_ext", "A2CExt"),
    "ppo_ext": ("sb3_ext.ppo_ext", "PPOExt"),
    "ppo_lstm_ext": ("sb3_ext.ppo_ext", "RecurrentPPOExt"),
    "ppo_mask_ext": ("sb3_ext.ppo_ext", "MaskablePPOExt"),
    "reinforce": ("sb3_ext.reinforce", "REINFORCE"),
}

#: Algorithms that train like a stock one by default, and so can use its tuned hyperparameters
STOCK_EQUIVALENT = {"a2c_ext": "a2c", "ppo_ext": "ppo", "ppo_lstm_ext": "ppo_lstm", "ppo_mask_ext": "ppo"}


def register_algorithms() -> None:
    """Add our algorithms to the dict that all of RL Zoo's commands share."""
    from rl_zoo3.utils import ALGOS

    for name, (module, class_name) in ALGORITHMS.items():
        algorithm: type[BaseAlgorithm] = getattr(import_module(module), class_name)
        ALGOS[name] = algorithm


def algorithm_class(algo: str) -> type[BaseAlgorithm]:
    """:param algo: any name that ``--algo`` takes"""
    from rl_zoo3.utils import ALGOS

    check_choice("--algo", algo, ALGOS)
    found: type[BaseAlgorithm] = ALGOS[algo]
    return found
