"""``load`` that refuses unknown keywords: SB3's sets any keyword as an attribute, so a typo is silently ignored."""

from __future__ import annotations

import inspect
from typing import Any

from stable_baselines3.common.base_class import BaseAlgorithm
from typing_extensions import Self

from sb3_ext.common.names import check_keywords

__all__ = ["CheckedLoad"]


class CheckedLoad(BaseAlgorithm):
    """Mixin, before the SB3 class in the bases."""

    @classmethod
    def load(cls, path: Any, *args: Any, **kwargs: Any) -> Self:
        parameters = inspect.signature(cls.__init__).parameters
        takes_anything = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())
        if not takes_anything:
            known = {*parameters, *inspect.signature(BaseAlgorithm.load).parameters}
            check_keywords(f"{cls.__name__}.load", kwargs, known)
        return super().load(path, *args, **kwargs)
