"""Environment ids that this package registers in Gymnasium. Importing it registers them."""

from sb3_ext.envs.atari import register_atari

__all__ = ["register_atari"]

register_atari()
