"""NumPy arrays in memory shared by several processes."""

from collections.abc import Mapping
from multiprocessing.context import BaseContext
from typing import Any

import numpy as np

__all__ = ["SharedArrays"]

#: Each array starts on its own cache line, so that processes don't contend for one
_ALIGNMENT = 64
#: Shape and data type
Field = tuple[tuple[int, ...], np.dtype]


class SharedArrays(dict[Any, np.ndarray]):
    """
    Arrays by name. A new process that gets the object as an argument sees the same memory.

    The memory has no name that could be left behind. It is freed when the last process that uses it ends.
    """

    def __init__(self, context: BaseContext | None, fields: Mapping[Any, Field], memory: Any = None) -> None:
        if memory is None:
            assert context is not None
            memory = context.RawArray("B", max(1, sum(_size(*field) for field in fields.values())))
        self._fields, self._memory = dict(fields), memory
        offset = 0
        for name, (shape, dtype) in fields.items():
            self[name] = np.frombuffer(memory, dtype, int(np.prod(shape)), offset).reshape(shape)
            offset += _size(shape, dtype)

    def __reduce__(self) -> tuple[Any, ...]:
        return SharedArrays, (None, self._fields, self._memory)


def _size(shape: tuple[int, ...], dtype: np.dtype) -> int:
    """In bytes, rounded up to whole cache lines."""
    n_bytes = int(np.prod(shape)) * np.dtype(dtype).itemsize
    return -(-n_bytes // _ALIGNMENT) * _ALIGNMENT
