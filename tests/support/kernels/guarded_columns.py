"""Has kernels write into memory that ends at an unreadable page and holds rubbish before."""

from __future__ import annotations

import ctypes
import mmap
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.kernels.decode import columns, messages
from support.kernels.guarded import Guarded

_RUBBISH = 0xA5


class Fence:
    """The memory of some batches, which is used again for the next ones."""

    def __init__(self) -> None:
        self._held: list[Guarded] = []
        self._free: defaultdict[int, list[Guarded]] = defaultdict(list)

    def release(self) -> None:
        """Ends the use of all memory: no frame is left that shares it."""
        for memory in self._held:
            self._free[memory.size_max].append(memory)
        self._held.clear()

    def allocate_buffer(self, size: int) -> pa.Buffer:
        """As `pa.allocate_buffer`."""
        return pa.foreign_buffer(self._guarded(size).address, size)

    def empty(self, count: int, dtype: type[np.generic]) -> npt.NDArray[np.generic]:
        """As `np.empty`."""
        size = count * np.dtype(dtype).itemsize
        memory = (ctypes.c_uint8 * size).from_address(self._guarded(size).address)
        return np.frombuffer(memoryview(memory).cast("B"), dtype)

    def copy(self, data: bytes) -> pa.Buffer:
        """A buffer with these bytes."""
        memory = self._guarded(len(data))
        memory.write(data)
        return pa.foreign_buffer(memory.address, len(data))

    def _guarded(self, size: int) -> Guarded:
        free = self._free[_pages_bytes(size)]
        memory = free.pop() if free else Guarded(size)
        memory.resize(size)
        ctypes.memset(memory.address, _RUBBISH, size)
        self._held.append(memory)
        return memory


def _pages_bytes(size: int) -> int:
    return -(-size // mmap.PAGESIZE) * mmap.PAGESIZE


class _Instead:
    """A module in which some functions are replaced."""

    def __init__(self, module: object, **functions: object) -> None:
        self._module = module
        vars(self).update(functions)

    def __getattr__(self, name: str) -> object:
        return getattr(self._module, name)


@contextmanager
def guarded_columns(fence: Fence) -> Iterator[None]:
    """Columns that are made inside have memory of the fence; their frames end with the block."""
    arrow = _Instead(pa, allocate_buffer=fence.allocate_buffer)
    numbers = _Instead(np, empty=fence.empty)
    with (
        patch.object(columns, "pa", arrow),
        patch.object(columns, "np", numbers),
        patch.object(messages, "np", numbers),
    ):
        yield
    fence.release()
