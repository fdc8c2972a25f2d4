"""Which seam is applied when.

``sb3_ext._autoload`` has the names of RL Zoo's modules too: it can't afford to import this one.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module

__all__ = ["apply", "apply_all"]


def _register_algorithms() -> None:
    from sb3_ext.zoo import commands, registry

    registry.register_algorithms()
    commands.suggest_algorithm(sys.orig_argv)


def _extend_utils() -> None:
    from sb3_ext.zoo import normalization

    _register_algorithms()
    normalization.load_statistics_of_the_model()


def _register_environments() -> None:
    import_module("sb3_ext.envs")


def _register_samplers() -> None:
    from sb3_ext.zoo import samplers

    samplers.register_samplers()


def _replace_experiment_manager() -> None:
    import_module("sb3_ext.zoo.experiment")


def _mend_upload() -> None:
    from sb3_ext.zoo import ffmpeg, hub

    hub.provide_generate_metadata()
    hub.let_cards_name_this_package()
    hub.let_upload_survive_video()
    ffmpeg.provide_ffmpeg()


def _mend_download() -> None:
    from sb3_ext.zoo import hub

    hub.let_optional_files_be_missing()


def _mend_children() -> None:
    from sb3_ext.zoo import commands, ffmpeg

    commands.run_children_with_this_python()
    ffmpeg.provide_ffmpeg()


_SEAMS: dict[tuple[str, str], Callable[[], None]] = {
    ("after", "rl_zoo3.utils"): _extend_utils,
    ("after", "rl_zoo3.import_envs"): _register_environments,
    ("after", "rl_zoo3.hyperparams_opt"): _register_samplers,
    ("after", "rl_zoo3.exp_manager"): _replace_experiment_manager,
    ("before", "rl_zoo3.load_from_hub"): _mend_download,
    ("before", "rl_zoo3.push_to_hub"): _mend_upload,
    ("before", "rl_zoo3.benchmark"): _mend_children,
    ("before", "rl_zoo3.record_training"): _mend_children,
}


def apply(when: str, module: str) -> None:
    """
    :param when: ``"before"`` or ``"after"`` the module is loaded
    :param module: one of RL Zoo's modules
    """
    _SEAMS[when, module]()


def apply_all() -> None:
    """Apply what a program that uses RL Zoo as a library needs; its modules may be loaded already or not."""
    _mend_download()
    _mend_upload()
    for when, module in _SEAMS:
        if when == "after":
            import_module(module)
            apply(when, module)
