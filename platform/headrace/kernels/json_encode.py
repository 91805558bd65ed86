"""Encodes columns as JSON objects, one per row: `c/encode/json_encode.c`.

The kernel reads the columns in polars' memory, through Arrow's C stream interface, and writes text and offsets into
memory that Arrow allocates. An Arrow large_binary column may share the buffers of the result.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import polars as pl
import pyarrow as pa

from headrace.kernels.arrow_columns import stream_address
from headrace.kernels.growing_text import Status, growing_text
from headrace.kernels.library import is_loaded, kernel

_ARROW_SCHEMA_WORDS = 9
_ARROW_ARRAY_WORDS = 10


class EncodeState(ctypes.Structure):
    """`json_encode_t`. At the start all fields after the first five are zero."""

    _fields_ = (
        ("stream", ctypes.c_void_p),
        ("names", ctypes.c_char_p),
        ("column_count", ctypes.c_int64),
        ("is_epoch_ms", ctypes.c_int64),
        ("row_count", ctypes.c_int64),
        ("field_bytes", ctypes.c_int64),
        ("key_bytes", ctypes.c_int64),
        ("row_bytes_guess", ctypes.c_int64),
        ("fixed_bytes_max", ctypes.c_int64),
        ("fields", ctypes.c_void_p),
        ("keys", ctypes.c_void_p),
        ("text", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("text_bytes_max", ctypes.c_int64),
        ("text_bytes", ctypes.c_int64),
        ("row", ctypes.c_int64),
        ("missing", ctypes.c_int64),
        ("is_placed", ctypes.c_int64),
        ("is_bound", ctypes.c_int64),
        ("first_row", ctypes.c_int64),
        ("schema", ctypes.c_int64 * _ARROW_SCHEMA_WORDS),
        ("rows", ctypes.c_int64 * _ARROW_ARRAY_WORDS),
    )


class JsonEncodeKernel:
    """Writes `columns` of frames, in that order. Has no state between frames, so threads may share it.

    No name of a column or nested field may contain a NUL: polars aborts the process when it exports such a name.
    """

    def __init__(self, columns: Sequence[str], *, epoch_ms: bool) -> None:
        assert len(set(columns)) == len(columns), "an object has each name once"
        self._open = kernel("headrace_json_open", ctypes.c_int64, ctypes.c_void_p)
        self._write = kernel("headrace_json_write", ctypes.c_int64, ctypes.c_void_p)
        self._close = kernel("headrace_json_close", None, ctypes.c_void_p)
        self._columns = len(columns)
        self._names = b"".join(name.encode() + b"\0" for name in columns)
        self._epoch_ms = epoch_ms

    def encode(self, rows: pl.DataFrame) -> pa.Array | None:
        """One object per row: Arrow large_string without NULLs. None if the kernel does not support a type or a
        date."""
        capsule = rows.__arrow_c_stream__(None)
        state = EncodeState(stream_address(capsule), self._names, self._columns, self._epoch_ms, rows.height)
        at = ctypes.addressof(state)
        try:
            if self._open(at) != Status.DONE:
                return None
            # variables keep the memory alive until the kernel returns
            fields, keys = pa.allocate_buffer(state.field_bytes), pa.allocate_buffer(state.key_bytes)
            state.fields, state.keys = fields.address, keys.address
            buffers = growing_text(self._write, state, at, state.row_count * state.row_bytes_guess)
            return buffers and pa.Array.from_buffers(pa.large_string(), rows.height, buffers, null_count=0)
        finally:
            self._close(at)


def json_encode_kernel(columns: Sequence[str], *, epoch_ms: bool) -> JsonEncodeKernel | None:
    """The kernel for these columns; None where kernels are off or missing.

    epoch_ms: timestamps as whole milliseconds since 1970, rounded down; otherwise as RFC 3339
    """
    return JsonEncodeKernel(columns, epoch_ms=epoch_ms) if is_loaded() else None
