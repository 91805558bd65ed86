"""Numbers for the keys of recent rows, and the order of rows by the words of their keys.

`KeyIndex` is `c/state/key_index.c`, the hash table of the group-by kernel without aggregates.
"""

from __future__ import annotations

import ctypes
import os
import weakref
from collections.abc import Sequence
from ctypes import c_int64, c_void_p
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.kernels.arrow_columns import key_form, stream_address
from headrace.kernels.library import Kernel, is_loaded, kernel

Words = npt.NDArray[np.uint64]


class _Status(IntEnum):
    DONE = 0
    NO_MEMORY = 1
    UNFIT = 2


class KeyIndex:
    """Numbers distinct keys in the order in which they first appear, from 0 on. Used by one thread at a time.

    Keys are untrusted: the hash has a secret seed. The owner of an index bounds its `size_bytes`.
    """

    def __init__(self, keys: Sequence[tuple[str, pl.DataType]]) -> None:
        """Raises MemoryError. The columns have types that `runs.fits` accepts."""
        self._names = tuple(name for name, _ in keys)
        forms = [form for _, dtype in keys if (form := key_form(dtype)) is not None]
        assert len(forms) == len(keys), f"{keys} have forms"
        making = kernel("headrace_key_index_new", c_void_p, c_void_p, c_int64, ctypes.c_char_p)
        self._index: int | None = making((c_int64 * len(forms))(*forms), len(forms), os.urandom(16))
        if not self._index:
            raise MemoryError(f"no memory for an index of keys, or none is made for {self._names}")
        # not at exit: a daemon thread may use the index still
        weakref.finalize(self, kernel("headrace_key_index_free", None, c_void_p), self._index).atexit = False

    @property
    def keys(self) -> int:
        """The number of keys."""
        count: int = kernel("headrace_key_index_keys", c_int64, c_void_p)(self._index)
        return count

    @property
    def size_bytes(self) -> int:
        """The memory that the index holds."""
        size: int = kernel("headrace_key_index_bytes", c_int64, c_void_p)(self._index)
        return size

    def number(self, frame: pl.DataFrame) -> npt.NDArray[np.uint32]:
        """The number of each row's key: uint32[n]. Keys that are not in the index are added. NULL equals NULL.

        Raises MemoryError; some of the keys may have been added then.
        """
        numbers = np.empty(frame.height, np.uint32)
        self._call(_on_rows("headrace_key_index_number"), frame, numbers.ctypes.data)
        return numbers

    def find(self, frame: pl.DataFrame) -> npt.NDArray[np.int64]:
        """The number of each row's key: int64[n]; -1 for a key that is not in the index. Adds nothing."""
        numbers = np.empty(frame.height, np.int64)
        self._call(_on_rows("headrace_key_index_find"), frame, numbers.ctypes.data)
        return numbers

    def clear(self) -> None:
        """Removes all keys; the memory stays allocated."""
        kernel("headrace_key_index_clear", None, c_void_p)(self._index)

    def _call(self, function: Kernel, frame: pl.DataFrame, numbers: int) -> None:
        columns = frame.columns
        places = (c_int64 * len(self._names))(*map(columns.index, self._names))
        capsule = frame.__arrow_c_stream__()
        status = function(self._index, stream_address(capsule), places, frame.height, numbers)
        if status == _Status.NO_MEMORY:
            raise MemoryError(
                f"no memory for more keys: the index holds {self.keys:,} keys in {self.size_bytes:,} bytes"
            )
        assert status == _Status.DONE, f"{frame.schema} has the keys {self._names} of the index, and their types"


def _on_rows(name: str) -> Kernel:
    return kernel(name, c_int64, c_void_p, c_void_p, c_void_p, c_int64, c_void_p)


def sorted_order(words: Words) -> npt.NDArray[np.uint32]:
    """The rows in the order of their words, rows with equal words in their order: uint32[n]. Raises MemoryError."""
    assert len(words) < 1 << 32, "rows are numbered with 32 bits"
    if not is_loaded():
        return np.argsort(words, kind="stable").astype(np.uint32)
    words = np.ascontiguousarray(words, np.uint64)
    order = np.empty(len(words), np.uint32)
    sorting = kernel("headrace_run_sorted_order", c_int64, c_void_p, c_int64, c_void_p)
    if not sorting(words.ctypes.data, len(words), order.ctypes.data):
        raise MemoryError(f"no memory to sort {len(words):,} rows")
    return order
