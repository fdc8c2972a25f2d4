"""Writes a policy module as ONNX or TorchScript, with metadata, and runs such a file."""

import io
import json
import os
import warnings
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import torch as th

from sb3_ext.common.names import check_choice
from sb3_ext.common.usage_error import UsageError
from sb3_ext.runs.agents.export_policy import PolicyModule

__all__ = ["SUFFIXES", "RunFile", "check_target", "write_file"]

#: Suffixes of the files, by format
SUFFIXES = {"onnx": ".onnx", "torchscript": ".pt"}
#: The newest that all releases of onnxruntime since 2022 know
_OPSET = 17

#: Runs a file: inputs by name, without or with the optional one, to the outputs in their order
RunFile = Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]


def check_target(path: str | os.PathLike[str], file_format: str | None = None) -> str:
    """
    :return: the format of a file to write, by default that of its suffix
    :raises UsageError: when the suffix is another, when there is no such folder, or without the packages
    """
    path = Path(path)
    expected = {suffix: name for name, suffix in SUFFIXES.items()}
    if file_format is not None:
        check_choice("format", file_format, SUFFIXES)
        expected = {SUFFIXES[file_format]: file_format}
    if path.suffix not in expected:
        names = " or ".join(f"{suffix} ({name})" for suffix, name in expected.items())
        raise UsageError(f"{path}: the name of the file must end with {names}.")
    if not path.parent.is_dir():
        raise UsageError(f"{path}: there is no folder {path.parent}.")
    if path.is_dir():
        raise UsageError(f"{path} is a folder.")
    _check_installed(expected[path.suffix])
    return expected[path.suffix]


def _check_installed(file_format: str) -> None:
    """:raises UsageError: when a package that the format needs is missing"""
    try:
        if file_format == "onnx":
            import onnx  # noqa: F401
            import onnxruntime  # noqa: F401
    except ModuleNotFoundError as error:
        raise UsageError(f'Exporting to ONNX needs {error.name}: pip install "sb3-ext[onnx]"') from None


def write_file(
    module: PolicyModule, examples: list[np.ndarray], metadata: Mapping[str, str], file_format: str, path: Path
) -> RunFile:
    """
    :param examples: arrays for all inputs
    :return: a function that runs the written file
    """
    with warnings.catch_warnings(), th.no_grad():
        # Both writers are deprecated, and the trace ignores checks of values. The new exporter can't read SB3's
        # distributions, takes seconds, writes two files, and paths of this machine into one of them.
        warnings.simplefilter("ignore")
        tensors = tuple(map(th.as_tensor, examples))
        if file_format == "onnx":
            return _write_onnx(module, tensors, metadata, path)
        return _write_torchscript(module, tensors, metadata, path)


def _write_onnx(
    module: PolicyModule, tensors: tuple[th.Tensor, ...], metadata: Mapping[str, str], path: Path
) -> RunFile:
    import onnx
    import onnxruntime

    dynamic = {name: {0: "batch"} for name in [*module.input_names, *module.outputs]}
    if module.optional is not None:
        dynamic[module.optional.name] = {0: "batch or 1"}
    # When it fails, torch 2.13 prints the whole graph, whatever its settings
    with patch.object(th._C, "_jit_onnx_log", lambda *parts: None, create=True):
        th.onnx.export(
            module,
            tensors,
            path,
            input_names=module.input_names,
            output_names=module.outputs,
            dynamic_axes=dynamic,
            opset_version=_OPSET,
            dynamo=False,
        )
    graph = onnx.load(path)
    if module.optional is not None:
        # An input that has a value already may be left out
        graph.graph.initializer.append(onnx.numpy_helper.from_array(module.optional.default, module.optional.name))
    onnx.helper.set_model_props(graph, dict(metadata))
    graph.producer_name, graph.producer_version = "sb3-ext", metadata["sb3_ext_version"]
    onnx.checker.check_model(graph)
    onnx.save(graph, path)

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # without the warning that an optional input is not a constant
    options.intra_op_num_threads = 1
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    return lambda inputs: session.run(module.outputs, dict(inputs))


def _write_torchscript(
    module: PolicyModule, tensors: tuple[th.Tensor, ...], metadata: Mapping[str, str], path: Path
) -> RunFile:
    traced = th.jit.trace(module, tensors, check_trace=False)
    buffer = io.BytesIO()
    th.jit.save(traced, buffer, _extra_files={"metadata.json": json.dumps(dict(metadata), indent=2)})
    with zipfile.ZipFile(buffer) as saved, zipfile.ZipFile(path, "w") as archive:
        for entry in saved.infolist():
            # For tracebacks only, with paths of this machine
            if not entry.filename.endswith(".debug_pkl"):
                archive.writestr(entry.filename, saved.read(entry))
    loaded: Any = th.jit.load(path)
    defaults = {} if module.optional is None else {module.optional.name: module.optional.default}

    @th.no_grad()
    def run(inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        given = {**defaults, **inputs}
        return [output.numpy() for output in loaded(*(th.as_tensor(given[name]) for name in module.input_names))]

    return run
