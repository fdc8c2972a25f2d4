"""What an exported policy takes: observations as the environments give them, before ``VecNormalize``."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from stable_baselines3.common.preprocessing import is_image_space
from stable_baselines3.common.running_mean_std import RunningMeanStd
from stable_baselines3.common.vec_env import (
    VecEnv,
    VecEnvWrapper,
    VecFrameStack,
    VecNormalize,
    VecTransposeImage,
    unwrap_vec_normalize,
)

from sb3_ext.common.usage_error import UsageError

__all__ = ["ObservationInput", "describe_space", "observation_inputs"]

#: Names of other inputs and of outputs; a key of a Dict with such a name gets a prefix
_TAKEN = ("action", "action_mask", "next_state", "probabilities", "q_values", "state", "value")
#: A range that is wider than this says nothing about the observations that occur
_WIDE = 1e4


@dataclass(frozen=True)
class ObservationInput:
    """
    A whole observation, or one entry of a Dict.

    :param name: in the file
    :param key: of the Dict; ``None`` for a whole observation
    :param frame_space: what ``VecNormalize`` sees: an observation, or one frame if frames are stacked after it
    :param shape: of an observation, with all frames
    :param n_stack: number of frames of a frame stack, wherever it is
    :param axis: along which frames are stacked, in an observation without the batch dimension
    :param vec_normalize: what normalises this input
    :param is_transposed: an image with the channels last, for a policy that wants them first
    """

    name: str
    key: str | None
    frame_space: spaces.Space
    shape: tuple[int, ...]
    n_stack: int = 1
    axis: int = -1
    vec_normalize: VecNormalize | None = None
    is_transposed: bool = False

    @property
    def n_frames(self) -> int:
        """Frames that are normalised one by one."""
        own = self.frame_space.shape
        return self.n_stack if own and self.shape != own else 1

    @property
    def space(self) -> spaces.Space:
        """Of an observation, before ``VecNormalize``."""
        if self.n_frames == 1 or not isinstance(self.frame_space, spaces.Box):
            return self.frame_space
        return spaces.Box(self.stack(self.frame_space.low), self.stack(self.frame_space.high), dtype=self.dtype.type)

    @property
    def dtype(self) -> np.dtype[Any]:
        return np.dtype(self.frame_space.dtype)

    @property
    def statistics(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of one frame."""
        assert self.vec_normalize is not None
        return self._moments.mean, np.sqrt(self._moments.var + self.vec_normalize.epsilon)

    def stack(self, frame: np.ndarray) -> np.ndarray:
        """The same frame, as often as frames are stacked."""
        return np.concatenate([frame] * self.n_frames, self.axis) if self.n_frames > 1 else frame

    def sample(self, n: int, rng: np.random.Generator) -> np.ndarray:
        """``n`` random observations: where statistics or wide bounds say so, around the mean or 0."""
        frames = [self._sample_frames(n, rng) for _ in range(self.n_frames)]
        return np.concatenate(frames, self._batch_axis)

    def as_predict_gets_it(self, observations: np.ndarray) -> np.ndarray:
        """Normalised by SB3 itself, frame by frame."""
        if self.vec_normalize is None:
            return observations
        frames = np.split(observations, self.n_frames, self._batch_axis)
        normalized = [self.vec_normalize._normalize_obs(frame, self._moments).astype(np.float32) for frame in frames]
        return np.concatenate(normalized, self._batch_axis)

    def describe_stack(self) -> dict[str, Any]:
        """How to stack frames; ``empty`` is what stands for those before an episode's first one."""
        is_normalized_first = self.vec_normalize is not None and self.n_frames > 1
        # VecFrameStack fills up with zeros, which are the mean before normalisation
        empty = self.statistics[0].astype(np.float32).tolist() if is_normalized_first else 0
        return {"n_stack": self.n_stack, "axis": self.axis, "empty": empty}

    @property
    def _moments(self) -> RunningMeanStd:
        assert self.vec_normalize is not None
        known: Any = self.vec_normalize.obs_rms
        return known if self.key is None else known[self.key]

    @property
    def _batch_axis(self) -> int:
        return self.axis if self.axis < 0 or not self.shape else self.axis + 1

    def _sample_frames(self, n: int, rng: np.random.Generator) -> np.ndarray:
        space = self.frame_space
        if isinstance(space, spaces.Discrete):
            return rng.integers(space.n, size=n).astype(self.dtype)
        if isinstance(space, spaces.MultiDiscrete):
            return rng.integers(space.nvec, size=(n, *space.shape)).astype(self.dtype)
        if isinstance(space, spaces.MultiBinary):
            return rng.integers(2, size=(n, *space.shape)).astype(self.dtype)
        assert isinstance(space, spaces.Box)
        low, high = space.low.astype(np.float64), space.high.astype(np.float64)
        if self.vec_normalize is None:
            center, scale = np.clip(0.0, low, high), np.full(low.shape, 2.5)
            is_wide = ~(high - low <= _WIDE)
        else:
            center, scale = self.statistics
            is_wide = np.ones(low.shape, dtype=bool)
        around = np.clip(center + 2 * scale * rng.standard_normal((n, *space.shape)), low, high)
        within = np.where(is_wide, 0, low) + rng.random((n, *space.shape)) * np.where(is_wide, 0, high - low)
        sampled = np.where(is_wide, around, within)
        return (np.rint(sampled) if self.dtype.kind in "iu" else sampled).astype(self.dtype)


def observation_inputs(env: VecEnv, model_space: spaces.Space) -> list[ObservationInput]:
    """
    :param env: wrapped, stacked and normalised as in training
    :param model_space: what the policy sees
    """
    # An image goes in as the environment gives it, as into ``predict``
    env = env.venv if isinstance(env, VecTransposeImage) else env
    space = env.observation_space
    if not isinstance(space, spaces.Dict):
        return [_observation_input(env, None, space, model_space)]
    assert isinstance(model_space, spaces.Dict)
    return [_observation_input(env, key, space[key], model_space[key]) for key in model_space.spaces]


def _observation_input(
    env: VecEnv, key: str | None, space: spaces.Space, model_space: spaces.Space
) -> ObservationInput:
    name = "observation" if key is None else key
    shape, frame_space = space.shape, space
    if shape is None or model_space.shape is None:
        raise UsageError(f"The policy can't be exported: there is no array for {space}.")
    is_transposed = is_image_space(model_space) and shape != model_space.shape
    if model_space.shape != ((shape[-1], *shape[:-1]) if is_transposed else shape):
        raise UsageError(f"The model sees {model_space}, but the environment gives {space}: is it another one?")
    vec_normalize = unwrap_vec_normalize(env)
    if vec_normalize is not None and not _normalizes(vec_normalize, key):
        vec_normalize = None
    if vec_normalize is not None:
        inner = vec_normalize.venv.observation_space
        frame_space = inner[key] if isinstance(inner, spaces.Dict) and key is not None else inner
    n_stack, axis = _frame_stack(env, key)
    if key in _TAKEN or name.isdigit():
        name = f"observation_{key}"
    found = ObservationInput(name, key, frame_space, shape, n_stack, axis, vec_normalize, is_transposed)
    if found.space.shape != shape:
        raise UsageError(f"A wrapper around VecNormalize changes observations from {frame_space} to {space}.")
    if found.n_frames > 1 and found.dtype.kind in "iu":
        raise UsageError(
            f"VecNormalize normalises observations of {found.dtype}; VecFrameStack then cuts them to whole numbers, so "
            "the policy can't be exported. Train with float32 observations, or without one of both."
        )
    return found


def _normalizes(vec_normalize: VecNormalize, key: str | None) -> bool:
    return vec_normalize.norm_obs and (key is None or key in (vec_normalize.norm_obs_keys or ()))


def _frame_stack(env: VecEnv, key: str | None) -> tuple[int, int]:
    """Number of frames and the axis."""
    while isinstance(env, VecEnvWrapper):
        if isinstance(env, VecFrameStack):
            stacked = env.stacked_obs
            return stacked.n_stack, (stacked if key is None else stacked.sub_stacked_observations[key]).repeat_axis
        env = env.venv
    return 1, -1


def describe_space(space: spaces.Space) -> dict[str, Any]:
    """A space as JSON; a bound is one number if all are equal, and ``null`` if there is none."""
    described: dict[str, Any] = {"type": type(space).__name__}
    if isinstance(space, spaces.Dict):
        return described | {"spaces": {key: describe_space(part) for key, part in space.spaces.items()}}
    described |= {"shape": list(space.shape or ()), "dtype": str(space.dtype)}
    if isinstance(space, spaces.Discrete):
        return described | {"n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.MultiDiscrete):
        return described | {"nvec": space.nvec.tolist()}
    if isinstance(space, spaces.Box):
        return described | {"low": _bound(space.low), "high": _bound(space.high)}
    return described


def _bound(values: np.ndarray) -> Any:
    first = values.flat[0]
    if not np.all(values == first):
        return [_bound(part) if np.ndim(part) else _bound(np.array([part])) for part in values]
    return first.item() if np.isfinite(first) else None
