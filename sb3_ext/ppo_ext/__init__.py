"""PPOExt: SB3's PPO with extras that are off by default. The algorithm, its loss, and what watches its updates."""

from sb3_ext.ppo_ext.ppo_ext import MaskablePPOExt, PPOExt, RecurrentPPOExt

__all__ = ["MaskablePPOExt", "PPOExt", "RecurrentPPOExt"]
