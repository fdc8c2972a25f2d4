"""Catches the double frame-skip: an environment that skips frames itself, under a wrapper that skips again."""

from __future__ import annotations

import warnings

from stable_baselines3.common.atari_wrappers import MaxAndSkipEnv
from stable_baselines3.common.vec_env import VecEnv

__all__ = ["warn_double_frame_skip"]


def warn_double_frame_skip(vec_env: VecEnv | None) -> None:
    """
    ``ALE/Pong-v5`` skips 4 frames, and SB3's ``AtariWrapper`` skips 4 more: the agent acts at every 16th frame, and
    scores far worse than published results.

    :param vec_env: a training environment; nothing is said when there is none
    """
    if vec_env is None or not any(vec_env.env_is_wrapped(MaxAndSkipEnv)):
        return
    spec = vec_env.get_attr("spec", indices=0)[0]
    own_skip = spec.kwargs.get("frameskip", 1) if spec is not None else 1
    if own_skip == 1:
        return
    game = spec.id.split("/")[-1]
    warnings.warn(
        f"{spec.id} skips frames itself (frameskip={own_skip}) and AtariWrapper skips again, so the agent acts far too "
        f"rarely. Use --env {game.split('-')[0]}-v5 (sb3-ext's id, no frame-skip of its own), or keep {spec.id} with "
        "--env-kwargs frameskip:1.",
        stacklevel=2,
    )
