"""Environment ids that this package registers in Gymnasium. Importing it registers them.

Its imports stay light, so that ``sb3-ext envs`` is quick. An environment's class is loaded when one is made.
"""

import gymnasium as gym

from sb3_ext.envs.atari import register_atari
from sb3_ext.envs.minatar import register_minatar

__all__ = ["OUR_IDS", "register_atari", "register_minatar"]

_games = register_atari()
register_minatar()
# The best default arm gives 100 per episode, the second best 89. No max_episode_steps: Gymnasium's time limit would
# silently cut a longer `length`
gym.register("Bandit-v0", "sb3_ext.envs.bandit:BanditEnv", reward_threshold=95.0)
#: All ids that are registered here
OUR_IDS = tuple(
    env_id
    for env_id, spec in gym.registry.items()
    if env_id in _games or str(spec.entry_point).startswith(f"{__name__}.")
)
