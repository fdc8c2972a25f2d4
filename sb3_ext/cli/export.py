"""``sb3-ext export RUN``: the policy of a run as one file that needs neither torch nor Stable-Baselines3."""

import argparse
from pathlib import Path

from sb3_ext.cli.run_argument import add_run
from sb3_ext.common.clean_text import say

__all__ = ["EPILOG", "add_arguments", "run"]

EPILOG = """examples:
  sb3-ext export @last                                     the best model, as ppo_ext-CartPole-v1_1.onnx, for instance
  sb3-ext export logs/ppo_ext/CartPole-v1_1@final -o agent.onnx
  sb3-ext export @last@20000 -o agent.pt                   the model of this step, as TorchScript

Preprocessing and the statistics of VecNormalize are in the file: it takes observations as the environment gives them,
after wrappers and frame stacking. It is written only if it answers as `predict` does on 1,000 random observations.
ONNX needs the extra `onnx`: pip install "sb3-ext[onnx]". docs/export.md has the names of inputs, outputs and metadata,
and an example that plays from the file.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_run(parser)
    parser.add_argument("-o", "--output", metavar="FILE", help="file to write (default: <algo>-<run>.onnx or .pt)")
    parser.add_argument(
        "--format", choices=["onnx", "torchscript"], help="what to write (default: as FILE ends, or onnx)"
    )


def run(args: argparse.Namespace) -> int:

    from sb3_ext.runs.agents.choose import describe_model, find_model
    from sb3_ext.runs.agents.export import export_policy
    from sb3_ext.runs.agents.export_check import N_OBSERVATIONS
    from sb3_ext.runs.agents.export_files import SUFFIXES, check_target
    from sb3_ext.zoo.load_run import load_run

    record, chosen = find_model(args.run, args.log_folder)
    folder = record.folder.resolve()
    target = Path(args.output or f"{folder.parent.name}-{folder.name}{SUFFIXES[args.format or 'onnx']}")
    check_target(target, args.format)
    say(f"Exporting {describe_model(chosen.path)}")
    loaded = load_run(record, chosen.keywords)
    run_id = record.training.get("id") or f"{record.algo}/{folder.name}"
    try:
        exported = export_policy(loaded.model, loaded.env, target, args.format, run_id=run_id)
    finally:
        loaded.env.close()
    inputs, outputs = ", ".join(exported.inputs), ", ".join(exported.outputs)
    say(f"{target}: {target.stat().st_size / 1e6:,.2f} MB, {inputs} -> {outputs}")
    say(f"It answers as predict does on {N_OBSERVATIONS:,} observations (difference: {exported.difference:.1g}).")
    return 0
