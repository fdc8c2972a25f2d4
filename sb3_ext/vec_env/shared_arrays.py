"""NumPy arrays in memory shared by several processes."""

from collections.abc import Hashable, Mapping
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np

__all__ = ["SharedArrays"]

#: Each array starts on its own cache line, so that processes don't contend for one
_ALIGNMENT = 64


class SharedArrays:
    """
    Arrays by name. A new process that gets the object as an argument sees the same memory.

    The memory has no name that could be left behind. It is freed when the last process that uses it ends.

    :param fields: shape and data type of each array
    """

    def __init__(self, context: BaseContext, fields: Mapping[Any, tuple[tuple[int, ...], np.dtype]]) -> None:
        self._fields = dict(fields)
        self._memory = context.RawArray("B", max(1, sum(_size(*field) for field in fields.values())))
        self._arrays = self._map()

    def _map(self) -> dict[Hashable, np.ndarray]:
        arrays, offset = {}, 0
        for name, (shape, dtype) in self._fields.items():
            count = int(np.prod(shape))
            arrays[name] = np.frombuffer(self._memory, dtype, count, offset).reshape(shape)
            offset += _size(shape, dtype)
        return arrays

    def get(self, name: Hashable) -> np.ndarray | None:
        return self._arrays.get(name)

    def __getitem__(self, name: Hashable) -> np.ndarray:
        return self._arrays[name]

    def __getstate__(self) -> dict[str, Any]:
        return {"_fields": self._fields, "_memory": self._memory}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._arrays = self._map()


def _size(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """In bytes, rounded up to whole cache lines."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return -(-n_bytes // _ALIGNMENT) * _ALIGNMENT
