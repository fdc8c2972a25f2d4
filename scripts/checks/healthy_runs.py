"""Healthy trainings, on which no alert should fire; see alerts.py."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["HEALTHY", "HealthyRun"]


@dataclass(frozen=True)
class HealthyRun:
    """
    :param algo: name of the algorithm in RL Zoo
    :param env_id: environment
    :param n_timesteps: how long it trains; by default as long as its section says
    :param what: what is special about it; ``section``: nothing
    :param changes: hyperparameters that differ from the section
    :param plain: whether there is no section, only the algorithm's own defaults and ``changes``
    """

    algo: str
    env_id: str
    n_timesteps: int | None = None
    what: str = "section"
    changes: Mapping[str, Any] = field(default_factory=dict)
    plain: bool = False

    def __str__(self) -> str:
        return f"{self.algo} {self.env_id}, {self.what}"


def _defaults(algo: str, env_id: str, n_timesteps: int, what: str = "defaults", **changes: Any) -> HealthyRun:
    return HealthyRun(algo, env_id, n_timesteps, what, changes, plain=True)


def _short(algo: str, env_id: str, n_timesteps: int) -> HealthyRun:
    return HealthyRun(algo, env_id, n_timesteps, f"section, {n_timesteps:,} steps")


#: As long as the sections say
_LONG = (
    HealthyRun("ppo_ext", "CartPole-v1"),
    HealthyRun("a2c_ext", "CartPole-v1"),
    HealthyRun("reinforce", "CartPole-v1"),
    HealthyRun("ppo_ext", "FrozenLake-v1"),
    HealthyRun("reinforce", "FrozenLake-v1"),
    HealthyRun("ppo_ext", "Pendulum-v1"),
    HealthyRun("ppo_ext", "Taxi-v4"),
    HealthyRun("ppo_ext", "Acrobot-v1"),
    HealthyRun("ppo_ext", "MountainCar-v0"),
    HealthyRun("ppo_ext", "LunarLander-v3"),
    HealthyRun("ppo_ext", "Bandit-v0"),
    HealthyRun("a2c_ext", "Bandit-v0"),
    HealthyRun("reinforce", "Bandit-v0"),
)

#: A look at whether it works at all: few rows, or a part of the section's budget
_SHORT = (
    _short("ppo_ext", "CartPole-v1", 3_500),
    _short("ppo_ext", "CartPole-v1", 20_000),
    _short("ppo_ext", "Acrobot-v1", 50_000),
    _short("ppo_ext", "Pendulum-v1", 50_000),
    _short("ppo_ext", "FrozenLake-v1", 100_000),
    _short("ppo_ext", "Taxi-v4", 100_000),
    _short("ppo_ext", "MountainCar-v0", 150_000),
    _short("ppo_mask_ext", "Taxi-v4", 60_000),
    _short("reinforce", "CartPole-v1", 15_000),
    _short("reinforce", "Acrobot-v1", 150_000),
    _short("reinforce", "LunarLander-v3", 150_000),
    _short("a2c_ext", "CartPole-v1", 25_000),
)

_FEW_BATCHES = {"n_steps": 128, "batch_size": 256}
_ZOO_DQN = {
    **{"learning_rate": 2.3e-3, "batch_size": 64, "learning_starts": 1000, "target_update_interval": 10},
    **{"train_freq": 256, "gradient_steps": 128, "exploration_fraction": 0.16, "exploration_final_eps": 0.04},
}

#: Without a section: what SB3 and our classes do when nobody says anything
_DEFAULTS = (
    _defaults("ppo_ext", "CartPole-v1", 12 * 2048, "defaults, 12 rows"),
    _defaults("ppo_ext", "CartPole-v1", 50_000),
    _defaults("ppo_ext", "CartPole-v1", 60_000, "8 envs, n_steps 128, batch_size 256", n_envs=8, **_FEW_BATCHES),
    _defaults(
        "ppo_ext", "CartPole-v1", 12 * 1024, "8 envs, n_steps 128, batch_size 256, 12 rows", n_envs=8, **_FEW_BATCHES
    ),
    _defaults("ppo_ext", "CartPole-v1", 50_000, "2 envs, n_steps 128, batch_size 256", n_envs=2, **_FEW_BATCHES),
    _defaults("ppo_ext", "Acrobot-v1", 15 * 4096, "defaults, 2 envs, 15 rows", n_envs=2),
    _defaults("ppo_ext", "LunarLander-v3", 12 * 4096, "defaults, 2 envs, 12 rows", n_envs=2),
    _defaults("ppo", "CartPole-v1", 14 * 2048, "defaults, 14 rows"),
    _defaults("a2c_ext", "CartPole-v1", 40_000, "defaults, 8 envs", n_envs=8),
    _defaults("a2c", "CartPole-v1", 40_000, "defaults, 4 envs", n_envs=4),
    _defaults("reinforce", "CartPole-v1", 60_000, "defaults, 8 envs", n_envs=8),
    _defaults("dqn", "CartPole-v1", 30_000, "RL Zoo's section", **_ZOO_DQN),
)

HEALTHY = (*_LONG, *_SHORT, *_DEFAULTS)
