"""The ``ext:`` key of a hyperparameter file: what is this plugin's, and not the algorithm's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any

from sb3_ext.common.names import check_choice, check_keywords
from sb3_ext.vec_env.mixed import Member, read_members
from sb3_ext.wrappers.curriculum_config import CurriculumConfig, read_curriculum

__all__ = ["ExtOptions", "read_options"]

VEC_ENVS = ("auto", "dummy", "subproc", "multicore")


@dataclass(frozen=True)
class ExtOptions:
    """
    :param native: use an environment's native vectorised version where there is one: Atari games with the standard
        wrappers, CartPole-v1
    :param vec_env: how other environments run in parallel: ``dummy`` (one after the other), ``subproc`` (SB3's, a
        process each), ``multicore`` (shared memory, a process a core), or ``auto``, which measures
    :param threads: torch's threads: ``auto`` measures; ``--num-threads`` goes first
    :param curriculum: stages that training goes through, see ``wrappers/curriculum_config.py``
    :param members: environments that are trained in at once, see ``vec_env/mixed.py``
    """

    native: bool = True
    vec_env: str = "auto"
    threads: int | str = "auto"
    curriculum: CurriculumConfig | None = None
    members: tuple[Member, ...] = ()


def read_options(written: Any) -> ExtOptions:
    """
    :param written: what the file has under ``ext``; ``None`` when it has nothing
    :raises TypeError: when a key is not known
    :raises ValueError: when a value is not possible
    """
    if written is None:
        return ExtOptions()
    if not isinstance(written, Mapping):
        raise ValueError(f"ext: {written!r} must be keys with values, such as ext: {{native: false}}.")
    check_keywords("ext:", written, [field.name for field in fields(ExtOptions)])
    readers: dict[str, Callable[[Any], Any]] = {"curriculum": read_curriculum, "members": read_members}
    options = ExtOptions(**{key: readers[key](value) if key in readers else value for key, value in written.items()})
    if not isinstance(options.native, bool):
        raise ValueError(f"ext: native: {options.native!r} must be true or false.")
    check_choice("ext: vec_env", options.vec_env, VEC_ENVS)
    threads = options.threads
    if threads != "auto" and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
        raise ValueError(f"ext: threads: {threads!r} must be 'auto' or a number from 1 on.")
    return options
