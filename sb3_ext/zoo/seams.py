"""Every change to RL Zoo, and when it is made. The docstring of each patch names the upstream problem.

``sb3_ext._autoload`` lists the same modules: it can't afford to import this one.
"""

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any

__all__ = ["apply", "apply_all", "replace_in_rl_zoo"]


def _extend_utils() -> None:
    from sb3_ext.zoo import commands, playing, registry

    registry.register_algorithms()
    commands.suggest_algorithm(sys.orig_argv)
    commands.patch_excepthook(sys.orig_argv)
    playing.patch_playing()


def _register_environments() -> None:
    import_module("sb3_ext.envs")


def _register_samplers() -> None:
    from sb3_ext.zoo import samplers

    samplers.register_samplers()


def _patch_experiment_manager() -> None:
    from sb3_ext.zoo import experiment

    experiment.patch_experiment_manager()
    _patch_train_parser()


def _patch_train_parser() -> None:
    from sb3_ext.zoo.config import train_command

    train_command.patch_train_parser()


def _patch_upload() -> None:
    from sb3_ext.zoo import ffmpeg, hub

    hub.patch_generate_metadata()
    hub.patch_model_card()
    hub.patch_replay_video()
    ffmpeg.provide_ffmpeg()


def _patch_download() -> None:
    from sb3_ext.zoo import hub

    hub.patch_missing_files()


def _patch_child_commands() -> None:
    from sb3_ext.zoo import commands, ffmpeg

    commands.patch_child_commands()
    ffmpeg.provide_ffmpeg()


_SEAMS: dict[tuple[str, str], Callable[[], None]] = {
    ("after", "rl_zoo3.utils"): _extend_utils,
    ("after", "rl_zoo3.import_envs"): _register_environments,
    ("after", "rl_zoo3.hyperparams_opt"): _register_samplers,
    ("after", "rl_zoo3.exp_manager"): _patch_experiment_manager,
    ("after", "rl_zoo3.train"): _patch_train_parser,
    ("before", "rl_zoo3.load_from_hub"): _patch_download,
    ("before", "rl_zoo3.push_to_hub"): _patch_upload,
    ("before", "rl_zoo3.benchmark"): _patch_child_commands,
    ("before", "rl_zoo3.record_training"): _patch_child_commands,
}


def apply(when: str, module: str) -> None:
    """Called ``"before"`` or ``"after"`` a module of RL Zoo is loaded."""
    _SEAMS[when, module]()


def apply_all() -> None:
    """Apply what a program that uses RL Zoo as a library needs, whether its modules are loaded or not."""
    _patch_download()
    _patch_upload()
    for when, module in _SEAMS:
        if when == "after":
            import_module(module)
            apply(when, module)


def replace_in_rl_zoo(original: Any, replacement: Any) -> None:
    """Replace a function or a class, also in modules of RL Zoo that have imported it by name."""
    name = original.__name__
    for module_name, module in list(sys.modules.items()):
        if module_name.split(".")[0] in ("rl_zoo3", "__main__") and getattr(module, name, None) is original:
            setattr(module, name, replacement)
