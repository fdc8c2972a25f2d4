"""``load`` that rejects what SB3 accepts silently: unknown keywords, and models of another algorithm."""

from __future__ import annotations

import inspect
from typing import Any, Self

from stable_baselines3.common.base_class import BaseAlgorithm

from sb3_ext.common.model_file import check_saved_by
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
            check_saved_by(cls.__name__, parameters, path)
        return super().load(path, *args, **kwargs)
