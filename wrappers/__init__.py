"""Environment wrappers: reward shaping, domain randomisation, noise, curricula, action masks.

One file a topic; each is usable from a YAML ``env_wrapper:`` line.
"""

from sb3_ext.wrappers.action_masks import ActionMaskFromInfo

__all__ = ["ActionMaskFromInfo"]
