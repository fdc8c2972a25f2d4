"""Environment ids that this package registers in Gymnasium. Importing it registers them.

What it imports stays light: ``sb3-ext envs`` lists ids in less than a second, and an environment's class is loaded when
one is made.
"""

from __future__ import annotations

import gymnasium as gym

from sb3_ext.envs.atari import register_atari
from sb3_ext.envs.minatar import register_minatar

__all__ = ["OUR_IDS", "register_atari", "register_bandit", "register_minatar"]


def register_bandit() -> list[str]:
    """
    Register ``Bandit-v0``; registering again changes nothing.

    :return: the ids
    """
    if "Bandit-v0" not in gym.registry:
        # The best of the default arms gives 100 an episode, the second best 89. Without max_episode_steps: Gymnasium's
        # time limit would cut a longer `length` without a word.
        gym.register("Bandit-v0", "sb3_ext.envs.bandit:BanditEnv", reward_threshold=95.0)
    return ["Bandit-v0"]


_games = register_atari()
register_bandit()
register_minatar()
#: All ids that are registered here
OUR_IDS = tuple(
    env_id
    for env_id, spec in gym.registry.items()
    if env_id in _games or str(spec.entry_point).startswith(f"{__name__}.")
)
