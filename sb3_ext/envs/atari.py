"""``Pong-v5``, ``Breakout-v5`` and so on: ale-py's games with sticky actions and without a frame-skip of their own.

``ALE/Pong-v5`` skips 4 frames inside the environment, and the ``AtariWrapper`` of every Atari config skips 4 again.
These ids leave the skipping to the wrapper. They keep the sticky actions (0.25) of the v5 protocol (Machado et al.,
2018), without which parallel environments would be copies: the emulator is deterministic.
"""

import ale_py
import gymnasium as gym

from sb3_ext.envs.object_games import register_objects

__all__ = ["register_atari"]


def register_atari() -> list[str]:
    """Register an id without namespace for each of ale-py's games, and the ``_objects`` ids. Returns the former."""
    gym.register_envs(ale_py)
    register_objects()
    games = [spec for spec in list(gym.registry.values()) if spec.namespace == "ALE" and spec.version == 5]
    for spec in games:
        env_id = f"{spec.name}-v5"
        if env_id not in gym.registry:
            gym.register(
                env_id,
                entry_point=spec.entry_point,
                vector_entry_point=spec.vector_entry_point,
                kwargs={**spec.kwargs, "frameskip": 1, "repeat_action_probability": 0.25},
            )
    return [f"{spec.name}-v5" for spec in games]
