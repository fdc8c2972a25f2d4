"""PPO with extras that are off by default: the algorithms, their update, and its loss."""

from sb3_ext.ppo_ext.ppo_ext import PPOExt
from sb3_ext.ppo_ext.variants import MaskablePPOExt, RecurrentPPOExt

__all__ = ["MaskablePPOExt", "PPOExt", "RecurrentPPOExt"]
