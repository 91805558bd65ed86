"""Writes rows of a frame as a record batch message of Arrow's IPC format: `c/exchange/arrow_message.c`."""

from __future__ import annotations

from ctypes import byref, c_int64, c_uint64, c_void_p
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from headrace.kernels.arrow_columns import stream_address
from headrace.kernels.library import is_loaded, kernel

_KEPT_MAX_BYTES = 1 << 20
_SPARE = 1.25
_ARGUMENTS = (c_void_p, c_void_p, c_int64, c_void_p, c_int64, c_void_p)


@dataclass(frozen=True, slots=True)
class ArrowMessage:
    """data: the message. columns: a digest of the names and types of its columns."""

    data: memoryview
    columns: int


class ArrowMessageWriter:
    """Writes messages into a buffer of its own, which grows with them. Used by one thread."""

    def __init__(self) -> None:
        self._write = kernel("headrace_arrow_message", c_int64, *_ARGUMENTS) if is_loaded() else None
        self._buffer = pa.allocate_buffer(0)
        self._columns = c_uint64()

    def write(self, frame: pl.DataFrame, rows: npt.NDArray[np.uint32] | None) -> ArrowMessage | None:
        """The message of the chosen rows of a frame of one chunk, in the order of `rows` (None: all rows).

        The message is valid until the next call. None where kernels are off or missing, for a frame without rows, and
        for columns that the kernel does not write: lists, structs, categories, NULLs without a type.
        """
        if self._write is None or not frame.height:
            return None
        size = self._written(frame, rows)
        if size > self._buffer.size:
            self._buffer = pa.allocate_buffer(int(size * _SPARE))
            size = self._written(frame, rows)
        if size < 0:
            return None
        message = ArrowMessage(memoryview(self._buffer).cast("B")[:size], self._columns.value)
        if self._buffer.size > _KEPT_MAX_BYTES:
            # the memory goes with the message
            self._buffer = pa.allocate_buffer(0)
        return message

    def _written(self, frame: pl.DataFrame, rows: npt.NDArray[np.uint32] | None) -> int:
        """The size of the message, which is written if the buffer has room for it; -1 for none."""
        assert self._write is not None, "asked for with kernels only"
        capsule = frame.__arrow_c_stream__()
        chosen, count = (None, frame.height) if rows is None else (rows.ctypes.data, len(rows))
        place = self._buffer.address, self._buffer.size, byref(self._columns)
        size = self._write(stream_address(capsule), chosen, count, *place)
        assert isinstance(size, int), "its type"
        return size
