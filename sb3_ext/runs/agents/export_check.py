"""Compares an exported file with ``predict`` on random observations."""

import warnings
from typing import Any

import numpy as np
import torch as th
from gymnasium import spaces
from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.export_files import RunFile
from sb3_ext.runs.agents.export_policy import PolicyModule, action_sizes

__all__ = ["N_OBSERVATIONS", "check_file"]

N_OBSERVATIONS = 1000
#: Difference that counts, relative to the largest number of an output if that is larger than 1
_TOLERANCE = 1e-4


def check_file(model: BaseAlgorithm, module: PolicyModule, run: RunFile) -> float:
    """
    :return: the largest difference, relative to the largest number of an output if that is larger than 1
    :raises UsageError: when the file gives another answer than ``predict``
    """
    rng = np.random.default_rng(0)
    largest = dict.fromkeys(module.outputs, 0.0)
    n_wrong = 0
    for n in (1, 99, *[100] * (N_OBSERVATIONS // 100 - 1)):
        inputs = {one.name: one.sample(n, rng) for one in module.inputs}
        seen = {one.key: one.as_predict_gets_it(inputs[one.name]) for one in module.inputs}
        keywords = {}
        if module.optional is not None and n == 100:
            inputs[module.optional.name] = module.sample_optional(n, rng)
            keywords = module.predict_keywords(inputs[module.optional.name])
        expected = _expected(model, module, inputs, seen.get(None, seen), keywords)
        is_wrong = np.zeros(n, dtype=bool)
        for name, output in zip(module.outputs, run(inputs), strict=True):
            errors = _errors(output, expected[name])
            if name == "action" and not isinstance(model.action_space, spaces.Box):
                errors = np.where(_is_tie(expected, model.action_space), 0, errors)
            largest[name] = float(np.max([largest[name], errors.max()]))
            is_wrong |= ~(errors.reshape(n, -1) <= _TOLERANCE).all(axis=1)
        n_wrong += int(is_wrong.sum())
    if n_wrong:
        figures = ", ".join(f"{name} {difference:.2g}" for name, difference in largest.items())
        raise UsageError(
            f"The exported policy disagrees with predict on {n_wrong:,} of {N_OBSERVATIONS:,} random observations, so "
            f"nothing was written. Largest differences: {figures}.\n{type(model.policy).__name__} does something that "
            "an export does not record, such as a decision in Python or computing with NumPy."
        )
    return max(largest.values())


def _expected(
    model: BaseAlgorithm, module: PolicyModule, inputs: dict[str, np.ndarray], seen: Any, keywords: dict[str, Any]
) -> dict[str, np.ndarray]:
    """What the file should answer: the action by ``predict``, the rest by the policy."""
    defaults = {} if module.optional is None else {module.optional.name: module.optional.default}
    tensors = [th.as_tensor((defaults | inputs)[name]) for name in module.input_names]
    with warnings.catch_warnings(), th.no_grad():
        warnings.simplefilter("ignore")
        outputs = [output.numpy() for output in module(*tensors)]
        action, _ = model.predict(seen, deterministic=True, **keywords)
    return {**dict(zip(module.outputs, outputs, strict=True)), "action": action}


def _errors(output: np.ndarray, expected: np.ndarray) -> np.ndarray:
    if output.shape != expected.shape:
        return np.full(len(output), np.inf)
    difference = np.abs(output.astype(np.float64) - expected)
    return difference / max(1.0, float(np.abs(expected).max()))


def _is_tie(expected: dict[str, np.ndarray], space: spaces.Space) -> np.ndarray:
    """Where two actions are equally good up to rounding, which may then decide; of the shape of the actions."""
    shape = expected["action"].shape
    scores = expected.get("probabilities", expected.get("q_values"))
    if scores is None:
        return np.zeros(shape, dtype=bool)
    tolerance = 1e-6 * max(1.0, float(np.abs(scores).max()))
    if isinstance(space, spaces.MultiBinary):
        return (np.abs(2 * scores - 1) <= tolerance).reshape(shape)
    parts = [np.sort(part, axis=1) for part in np.split(scores, np.cumsum(action_sizes(space))[:-1], axis=1)]
    margins = [part[:, -1] - part[:, -2] if part.shape[1] > 1 else np.ones(len(part)) for part in parts]
    return (np.stack(margins, axis=1) <= tolerance).reshape(shape)
