"""Hard bounds: a metric outside them means that something is broken. They are fixed, or inferred from the run."""

import math
from collections.abc import Callable
from weakref import WeakKeyDictionary

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.atari_wrappers import ClipRewardEnv
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext.metrics.catalogue import describe

__all__ = ["discrete_sizes", "hard_bounds", "is_within", "remember_bounds"]

#: Low and high; infinite for none
Range = tuple[float, float]

_OPEN: Range = (-math.inf, math.inf)
#: Unbounded spaces have the largest number of their type as bounds
_HUGE = 1e30
#: Attributes with the time limit: of Gymnasium's wrapper, and of environments that end episodes themselves
_TIME_LIMITS = ("_max_episode_steps", "max_episode_steps")

#: Inferred bounds by model, and the environments they belong to; these may be in other processes, so ask them once
_found: WeakKeyDictionary[BaseAlgorithm, tuple[VecEnv | None, dict[str, Range]]] = WeakKeyDictionary()


def hard_bounds(name: str, model: BaseAlgorithm) -> Range:
    """Lower and upper bound of a metric; infinite if nothing is known."""
    low, high = describe(name).bounds
    return (
        _inferred(low, model)[0] if isinstance(low, str) else -math.inf if low is None else float(low),
        _inferred(high, model)[1] if isinstance(high, str) else math.inf if high is None else float(high),
    )


def remember_bounds(model: BaseAlgorithm) -> None:
    """Infer all bounds now, because the environments may be closed later."""
    for bound in _INFER:
        _inferred(bound, model)


def is_within(value: float, bounds: Range) -> bool:
    """With some room for rounding and for estimates from a sample. NaN counts as within."""
    low, high = bounds
    slack = 1e-6 + 1e-3 * max((abs(bound) for bound in bounds if math.isfinite(bound)), default=0.0)
    return not (value < low - slack or value > high + slack)


def _inferred(bound: str, model: BaseAlgorithm) -> Range:
    env = model.get_env()
    if model not in _found or _found[model][0] is not env:
        _found[model] = (env, {})
    known = _found[model][1]
    if bound not in known:
        known[bound] = _INFER[bound](model)
    return known[bound]


def _entropy(model: BaseAlgorithm) -> Range:
    sizes = discrete_sizes(model.action_space)
    return _OPEN if sizes is None else (0.0, float(np.log(sizes).sum()))  # a density can have any entropy


def discrete_sizes(space: spaces.Space) -> np.ndarray | None:
    """Number of choices in each dimension of an action; ``None`` if it is continuous."""
    if isinstance(space, spaces.Discrete):
        return np.array([space.n])
    if isinstance(space, spaces.MultiDiscrete):
        return space.nvec.reshape(-1)
    return np.full(math.prod(space.shape), 2) if isinstance(space, spaces.MultiBinary) else None


def _entropy_loss(model: BaseAlgorithm) -> Range:
    low, high = _entropy(model)
    return 0.0 - high, 0.0 - low


def _actions(model: BaseAlgorithm) -> Range:
    space = model.action_space
    if isinstance(space, spaces.Box) and not getattr(model.policy, "squash_output", False):
        return _OPEN  # samples of a Gaussian, which SB3 clips only for the environment
    return _range_of(space)


def _observations(model: BaseAlgorithm) -> Range:
    space = model.observation_space
    divides = getattr(model.policy, "normalize_images", False)
    normalize = model.get_vec_normalize_env()
    if normalize is None or not normalize.norm_obs:
        return _seen_range(space, divides)
    clipped = (-float(normalize.clip_obs), float(normalize.clip_obs))
    if not isinstance(space, spaces.Dict):
        return clipped
    others = [part for key, part in space.spaces.items() if key not in (normalize.norm_obs_keys or space.spaces)]
    return _joined([clipped, *(_seen_range(part, divides) for part in others)])


def _seen_range(space: spaces.Space, divides: bool) -> Range:
    """As the policy sees it: ``divides`` if it divides the pixels of images by 255."""
    if isinstance(space, spaces.Dict):
        return _joined([_seen_range(part, divides) for part in space.spaces.values()])
    return (0.0, 1.0) if divides and is_image_space(space) else _range_of(space)


def _reward(model: BaseAlgorithm) -> Range:
    normalize = model.get_vec_normalize_env()
    if normalize is not None and normalize.norm_reward:
        return -float(normalize.clip_reward), float(normalize.clip_reward)
    env = model.get_env()
    if env is None or not all(env.env_is_wrapped(ClipRewardEnv)):
        return _OPEN
    # Terms may be added to the clipped reward
    return _OPEN if env.has_attr("set_shaping") else (-1.0, 1.0)


def _episode_length(model: BaseAlgorithm) -> Range:
    env = model.get_env()
    if env is None or env.has_attr("stage"):
        return 0.0, math.inf  # each stage of a curriculum may have its own limit
    for name in _TIME_LIMITS:
        if env.has_attr(name):
            limits = env.get_attr(name)
            if all(isinstance(limit, (int, np.integer)) for limit in limits):
                return 0.0, float(max(limits))
    return 0.0, math.inf


_INFER: dict[str, Callable[[BaseAlgorithm], Range]] = {
    "actions": _actions,
    "entropy": _entropy,
    "entropy_loss": _entropy_loss,
    "episode_length": _episode_length,
    "observations": _observations,
    "probability": lambda model: (0.0, 1.0),
    "reward": _reward,
}


def _range_of(space: spaces.Space) -> Range:
    if isinstance(space, spaces.Box):
        low, high = float(space.low.min()), float(space.high.max())
        return -math.inf if low < -_HUGE else low, math.inf if high > _HUGE else high
    if isinstance(space, spaces.Discrete):
        return float(space.start), float(space.start + space.n - 1)
    if isinstance(space, spaces.MultiDiscrete):
        return float(space.start.min()), float((space.start + space.nvec - 1).max())
    if isinstance(space, spaces.MultiBinary):
        return 0.0, 1.0
    return _OPEN


def _joined(ranges: list[Range]) -> Range:
    return min(low for low, _ in ranges), max(high for _, high in ranges)
