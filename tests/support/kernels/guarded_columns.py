"""Has kernels write into memory that ends at an unreadable page and holds rubbish before."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.kernels import columns
from support.kernels.guarded import Guarded

_RUBBISH = 0xA5


class Fence:
    """The memory of some batches. It is released with this object, so no frame may outlive it."""

    def __init__(self) -> None:
        self._held: list[Guarded] = []

    def allocate_buffer(self, size: int) -> pa.Buffer:
        """As `pa.allocate_buffer`."""
        return pa.foreign_buffer(self._guarded(size).address, size)

    def empty(self, count: int, dtype: npt.DTypeLike) -> npt.NDArray[np.generic]:
        """As `np.empty`."""
        size = count * np.dtype(dtype).itemsize
        memory = (ctypes.c_uint8 * size).from_address(self._guarded(size).address)
        return np.frombuffer(memory, dtype=dtype)

    def copy(self, data: bytes) -> pa.Buffer:
        """A buffer with these bytes."""
        memory = self._guarded(len(data))
        memory.write(data)
        return pa.foreign_buffer(memory.address, len(data))

    def _guarded(self, size: int) -> Guarded:
        memory = Guarded(size)
        ctypes.memset(memory.address, _RUBBISH, size)
        self._held.append(memory)
        return memory


class _Instead:
    """A module in which some functions are replaced."""

    def __init__(self, module: object, **functions: object) -> None:
        self._module = module
        vars(self).update(functions)

    def __getattr__(self, name: str) -> object:
        return getattr(self._module, name)


@contextmanager
def guarded_columns() -> Iterator[Fence]:
    """Columns that are made inside have guarded memory; frames of them end with the block."""
    fence = Fence()
    arrow = _Instead(pa, allocate_buffer=fence.allocate_buffer)
    numbers = _Instead(np, empty=fence.empty)
    with patch.object(columns, "pa", arrow), patch.object(columns, "np", numbers):
        yield fence
