"""Exports a model's policy with its preprocessing and normalisation statistics into one file, and checks that file."""

import json
import os
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.vec_env import VecEnv

from sb3_ext import __version__
from sb3_ext.common.env_spec import spec_of
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.export_check import check_file
from sb3_ext.runs.agents.export_files import check_target, write_file
from sb3_ext.runs.agents.export_inputs import describe_space, observation_inputs
from sb3_ext.runs.agents.export_policy import PolicyModule, make_policy_module
from sb3_ext.runs.facts import algorithm_name
from sb3_ext.runs.files import atomic_write
from sb3_ext.runs.play.labels import action_labels

__all__ = ["ExportedPolicy", "export_policy"]


class ExportedPolicy(NamedTuple):
    """``difference``: the largest one from ``predict`` in the check."""

    path: Path
    inputs: list[str]
    outputs: list[str]
    difference: float


def export_policy(
    model: BaseAlgorithm,
    env: VecEnv,
    path: str | os.PathLike[str],
    file_format: str | None = None,
    *,
    run_id: str | None = None,
) -> ExportedPolicy:
    """
    Write the deterministic policy of a model as a function of observations before ``VecNormalize``. Nothing is written
    if the file answers otherwise than ``predict``.

    :param model: of any SB3 algorithm, on the CPU
    :param env: environments wrapped, stacked and normalised as in training
    :param path: ends with ``.onnx``, or with ``.pt`` for TorchScript
    :param file_format: ``"onnx"`` or ``"torchscript"``; default: as the suffix says
    :param run_id: for the metadata
    """
    file_format = check_target(path, file_format)
    if model.device.type != "cpu":
        raise UsageError(f"The model is on {model.device}: load it with device='cpu' to export it.")
    module = make_policy_module(model, observation_inputs(env, model.observation_space))
    rng = np.random.default_rng(0)
    examples = [one.sample(2, rng) for one in module.inputs]
    if module.optional is not None:
        examples.append(module.sample_optional(2, rng))
    with atomic_write(path) as unfinished:
        try:
            run = write_file(module, examples, _metadata(model, env, module, run_id), file_format, unfinished)
        # The policy may be anyone's code, and the exporters raise many kinds of errors
        except Exception as error:
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise UsageError(
                f"{type(model.policy).__name__} can't be exported as {file_format}: {reason}\nNothing was written."
            ) from error
        difference = check_file(model, module, run)
    return ExportedPolicy(Path(path), module.input_names, module.outputs, difference)


def _metadata(model: BaseAlgorithm, env: VecEnv, module: PolicyModule, run_id: str | None) -> dict[str, str]:
    """Texts; lists and mappings are JSON."""
    spec = spec_of(env)
    described = {one.key: describe_space(one.space) for one in module.inputs}
    observation: Any = described[None] if None in described else {"type": "Dict", "spaces": described}
    facts: dict[str, Any] = {
        "sb3_ext_version": __version__,
        "algorithm": algorithm_name(model),
        "env_id": None if spec is None else spec.id,
        "run_id": run_id,
        "steps": str(model.num_timesteps),
        "inputs": module.input_names,
        "outputs": module.outputs,
        "observation_space": observation,
        "action_space": describe_space(model.action_space),
        "action_labels": action_labels(env) or None,
        "frame_stack": {one.name: one.describe_stack() for one in module.inputs if one.n_stack > 1} or None,
    }
    return {
        name: fact if isinstance(fact, str) else json.dumps(fact) for name, fact in facts.items() if fact is not None
    }
