"""Hyperparameters that are measured instead of searched."""

from collections.abc import Mapping
from typing import Any

__all__ = ["resolve_auto"]


def resolve_auto(section: Mapping[str, Any], algo: str, env_id: str, seed: int) -> tuple[dict[str, Any], list[str]]:
    """:return: the section without ``auto``, and what it was replaced with"""
    return dict(section), []
