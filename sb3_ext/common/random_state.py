"""The random generators that all code of a process shares: Python's, NumPy's and torch's."""

import random
from typing import Any, NamedTuple

import numpy as np
import torch as th

__all__ = ["RandomState"]


class RandomState(NamedTuple):
    """Can be pickled."""

    python: Any
    numpy: Any
    torch: th.Tensor
    cuda: list[th.Tensor]

    @classmethod
    def now(cls) -> "RandomState":
        cuda = th.cuda.get_rng_state_all() if th.cuda.is_initialized() else []
        return cls(random.getstate(), np.random.get_state(), th.get_rng_state(), cuda)

    def restore(self) -> None:
        random.setstate(self.python)
        np.random.set_state(self.numpy)
        th.set_rng_state(self.torch)
        if self.cuda and th.cuda.device_count() == len(self.cuda):
            th.cuda.set_rng_state_all(self.cuda)
