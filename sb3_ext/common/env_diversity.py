"""How much parallel environments differ: copies that do the same teach no more than one."""

from __future__ import annotations

import itertools
import warnings

import numpy as np

__all__ = ["env_diversity", "warn_if_copies"]

#: Steps and numbers of an observation that are looked at, at most: the rest would say the same and cost time.
_MAX_STEPS, _MAX_FEATURES = 32, 256
#: Equal transitions from which on an environment is called deterministic, and environments that are compared
_ENOUGH_PAIRS, _MAX_ENVS = 10, 16


def env_diversity(observations: np.ndarray) -> float | None:
    """
    Share of the observations' variance that lies between environments at the same step.

    :param observations: those of a rollout: steps, environments, and the observation's own axes
    :return: 0 when all environments are the same at every step, about 1 when an environment's observation says nothing
        of the others'; ``None`` when no observation differs from another, as in a bandit: that says nothing
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
    # An unbiased estimate: n environments that are independent have only (n - 1) / n of the variance among them
    share = between[varies] / total[varies] * n_envs / max(n_envs - 1, 1)
    return float(np.clip(share.mean(), 0.0, 1.0))


def _mean_squares(deviations: np.ndarray) -> np.ndarray:
    """Over all axes but the last; several times faster than ``var`` on small arrays."""
    rows = deviations.reshape(-1, deviations.shape[-1])
    return np.einsum("ij,ij->j", rows, rows) / len(rows)


def warn_if_copies(observations: np.ndarray, actions: np.ndarray, episode_starts: np.ndarray) -> None:
    """
    Tell when environments start equally and go on equally whenever they get the same actions: only the policy's random
    choices make them differ then.

    :param observations: those of the first rollout: steps, environments, and the observation's own axes
    :param actions: the actions taken, with the same first two axes
    :param episode_starts: whether a step is the first of an episode, with these two axes
    """
    n_envs = observations.shape[1]
    flat = observations[:_MAX_STEPS].reshape(min(len(observations), _MAX_STEPS), n_envs, -1)
    if n_envs < 2 or not np.all(flat[0] == flat[0, :1]) or np.all(flat == flat[0, 0]):
        return  # what never changes, as in a bandit, says nothing about its environments
    n_pairs, n_equal = 0, 0
    for one, other in itertools.combinations(range(min(n_envs, _MAX_ENVS)), 2):
        # As long as two environments have done the same, they should be in the same state
        same = np.all(actions[: len(flat) - 1, one] == actions[: len(flat) - 1, other], axis=-1)
        same &= episode_starts[: len(flat) - 1, one] == episode_starts[: len(flat) - 1, other]
        n_same = len(same) if same.all() else int(np.argmin(same))
        n_pairs += n_same
        n_equal += int(np.all(flat[1 : n_same + 1, one] == flat[1 : n_same + 1, other], axis=1).sum())
    if n_pairs >= _ENOUGH_PAIRS and n_equal == n_pairs:
        warnings.warn(
            f"The {n_envs} environments start in the same state and are deterministic: two that got the same actions "
            f"went on equally in all of {n_pairs} cases. Only the policy's random choices make them differ. Give the "
            "environment a random start (for Atari: sticky actions or no-ops) if that is not what you want.",
            stacklevel=2,
        )
