"""Writes rows of metrics to Weights & Biases, each at its timestep.

W&B counts calls of ``log``, which says nothing about training. Here the x axis is a metric: timesteps, which every row
has. Evaluations use the timesteps of the evaluated weights if they are known.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch as th
from stable_baselines3.common.logger import Figure, HParam, Image, KVWriter, Video

from sb3_ext.runs.rows import scalars

if TYPE_CHECKING:
    from wandb import Run

__all__ = ["EVAL_STEP", "EVAL_VEC_STEP", "SYNCED_STEP", "TIMESTEPS", "VEC_STEPS", "WandbWriter", "gradient_histograms"]

#: The x axis of a run
TIMESTEPS = "time/total_timesteps"
#: The x axis with ``axis: vec_steps``
VEC_STEPS = "time/vec_steps"
#: The x axis of a run that W&B reads from TensorBoard's files, the only one they have
SYNCED_STEP = "global_step"
#: The timesteps of the evaluated weights
EVAL_STEP = "eval/step"
EVAL_VEC_STEP = "eval/vec_step"
_EVAL = "eval/"
#: Maximum number of parameters with histograms, and of numbers in one
_MAX_PARAMETERS, _MAX_NUMBERS = 64, 10_000


class WandbWriter(KVWriter):
    """
    An output format of SB3's logger. Metrics that exclude ``wandb`` are left out.

    :param run: an open run
    :param synced: W&B reads this training's TensorBoard files (``sync_tensorboard=True``, as in RL Zoo's ``--track``),
        so only what those files lack is written
    :param vec_steps_of: number of environments, to use vec steps as the x axis; not for a run that is synced
    """

    def __init__(self, run: Run, synced: bool = False, vec_steps_of: int | None = None) -> None:
        self._run = run
        self._synced = synced
        self._n_envs = vec_steps_of or 1
        self._eval_names: set[str] = set()
        self.step_metric = SYNCED_STEP if synced else TIMESTEPS if vec_steps_of is None else VEC_STEPS
        self._eval_step = EVAL_VEC_STEP if self.step_metric == VEC_STEPS else EVAL_STEP
        #: Names logged so far, by this writer or TensorBoard's
        self.names: set[str] = set()
        #: Rows of the logger so far
        self.rows = 0
        run.define_metric(self.step_metric)
        run.define_metric("*", step_metric=self.step_metric)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        self.rows += 1
        logged: dict[str, Any] = {}
        for name, value in key_values.items():
            excluded = key_excluded.get(name) or ()
            if "wandb" in excluded:
                continue
            if isinstance(value, HParam):
                self._run.config.update(value.hparam_dict, allow_val_change=True)
                continue
            self.names.add(name)
            if self._synced and "tensorboard" not in excluded and not isinstance(value, str):
                continue
            converted = _converted(value)
            if converted is not None:
                logged[name] = converted
        if logged:
            self._draw_over_eval_step(logged)
            self.log(step, logged)

    def log(self, step: int, values: Mapping[str, Any]) -> None:
        self.names.update(values)
        at = {self.step_metric: step // self._n_envs, TIMESTEPS: step}
        self._run.log({**values, **at})

    def _draw_over_eval_step(self, logged: dict[str, Any]) -> None:
        """Define each name, because W&B chooses at random between matching patterns such as ``*`` and ``eval/*``."""
        if EVAL_STEP not in logged:
            return
        if self._eval_step == EVAL_VEC_STEP:
            logged[EVAL_VEC_STEP] = logged[EVAL_STEP] // self._n_envs
        for name in logged:
            if name.startswith(_EVAL) and name not in self._eval_names:
                self._eval_names.add(name)
                self._run.define_metric(name, step_metric=None if name == self._eval_step else self._eval_step)

    def close(self) -> None:
        """The run is closed by its owner."""


def gradient_histograms(policy: th.nn.Module) -> dict[str, np.ndarray]:
    """Numbers for histograms: the gradients of the last minibatch, as applied, and the weights."""
    histograms = {}
    with_gradient = [(name, p) for name, p in policy.named_parameters() if p.grad is not None]
    for name, parameter in with_gradient[:_MAX_PARAMETERS]:
        assert parameter.grad is not None
        for kind, tensor in (("gradients", parameter.grad), ("weights", parameter)):
            every = max(-(-tensor.numel() // _MAX_NUMBERS), 1)
            numbers = tensor.detach().flatten()[::every].cpu().numpy()
            # A copy without NaN and infinity; the next update overwrites the memory
            finite = numbers[np.isfinite(numbers)]
            if finite.size:
                histograms[f"{kind}/{name}"] = finite
    return histograms


def _converted(value: Any) -> Any:
    """What W&B shows for a value of SB3's logger; ``None`` if it can't show it."""
    import wandb

    if isinstance(value, str):
        return value
    number = scalars({"value": value}).get("value")
    if number is not None:
        return int(value) if isinstance(value, int | np.integer) and not isinstance(value, bool) else number
    if isinstance(value, th.Tensor):
        value = value.detach().cpu().numpy()
    if isinstance(value, np.ndarray):
        finite = value[np.isfinite(value)]
        return wandb.Histogram(finite) if finite.size else None  # type: ignore[arg-type]
    if isinstance(value, Figure):
        return wandb.Image(value.figure)
    if isinstance(value, Image):
        return wandb.Image(_height_width_colours(value))
    if isinstance(value, Video):
        return wandb.Video(value.frames.cpu().numpy(), fps=max(round(value.fps), 1), format="gif")
    return None


def _height_width_colours(image: Image) -> Any:
    if isinstance(image.image, str):
        return image.image
    pixels = np.asarray(image.image)
    return pixels.transpose([image.dataformats.index(axis) for axis in "HWC" if axis in image.dataformats])
