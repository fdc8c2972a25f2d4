"""Mistakes in a training's environments: copies that teach no more than one of them, and a double frame-skip."""

import itertools
import warnings

import numpy as np
from stable_baselines3.common.atari_wrappers import MaxAndSkipEnv
from stable_baselines3.common.vec_env import VecEnv

__all__ = ["env_diversity", "warn_double_frame_skip", "warn_if_copies"]

#: Compare at most so many steps and numbers of an observation: the rest would say the same and cost time
_MAX_STEPS, _MAX_FEATURES = 32, 256
#: Equal transitions after which environments count as deterministic, and how many environments are compared
_ENOUGH_PAIRS, _MAX_ENVS = 10, 16


def env_diversity(observations: np.ndarray) -> float | None:
    """
    Fraction of the variance of a rollout's observations that lies between environments at the same step.

    :return: 0 when all environments are the same at every step, about 1 when they are independent; ``None`` when all
        observations are equal, as in a bandit: that says nothing
    """
    n_steps, n_envs = observations.shape[:2]
    steps = np.linspace(0, n_steps - 1, min(n_steps, _MAX_STEPS)).astype(int)
    flat = observations.reshape(n_steps, n_envs, -1)
    sample = flat[steps][:, :, :: -(-flat.shape[2] // _MAX_FEATURES)].astype(np.float64)
    means = np.add.reduce(sample, axis=1) / n_envs
    between = _mean_squares(sample - means[:, None])
    total = between + _mean_squares(means - np.add.reduce(means, axis=0) / len(means))
    varies = total > 1e-12
    if not varies.any():
        return None
    # An unbiased estimate: n independent environments have only (n - 1) / n of the variance between them
    share = between[varies] / total[varies] * n_envs / max(n_envs - 1, 1)
    return float(np.clip(share.mean(), 0.0, 1.0))


def _mean_squares(deviations: np.ndarray) -> np.ndarray:
    """Over all axes but the last; several times faster than ``var`` on small arrays."""
    rows = deviations.reshape(-1, deviations.shape[-1])
    return np.einsum("ij,ij->j", rows, rows) / len(rows)


def warn_if_copies(observations: np.ndarray, actions: np.ndarray, episode_starts: np.ndarray) -> None:
    """
    Warn when all environments start in the same state and the same actions always lead to the same observations. Then
    only the policy's random choices make them differ. The arrays are those of a rollout, by step and environment.
    """
    n_envs = observations.shape[1]
    flat = observations[:_MAX_STEPS].reshape(min(len(observations), _MAX_STEPS), n_envs, -1)
    if n_envs < 2 or not np.all(flat[0] == flat[0, :1]) or np.all(flat == flat[0, 0]):
        return  # observations that never change, as in a bandit, say nothing about the environments
    n_pairs, n_equal = 0, 0
    for one, other in itertools.combinations(range(min(n_envs, _MAX_ENVS)), 2):
        # As long as two environments got the same actions, they should be in the same state
        same = np.all(actions[: len(flat) - 1, one] == actions[: len(flat) - 1, other], axis=-1)
        same &= episode_starts[: len(flat) - 1, one] == episode_starts[: len(flat) - 1, other]
        n_same = len(same) if same.all() else int(np.argmin(same))
        n_pairs += n_same
        n_equal += int(np.all(flat[1 : n_same + 1, one] == flat[1 : n_same + 1, other], axis=1).sum())
    if n_pairs >= _ENOUGH_PAIRS and n_equal == n_pairs:
        warnings.warn(
            f"The {n_envs} environments start in the same state and are deterministic: in all {n_pairs} cases in which "
            "two of them got the same actions, the next observations were equal. Only the policy's random choices make "
            "them differ. Give the environment a random start (for Atari: sticky actions or no-ops) if you did not "
            "intend this.",
            stacklevel=2,
        )


def warn_double_frame_skip(vec_env: VecEnv | None) -> None:
    """
    ``ALE/Pong-v5`` skips 4 frames, and SB3's ``AtariWrapper`` skips 4 more: the agent acts at every 16th frame, and
    scores far worse than published results.
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
