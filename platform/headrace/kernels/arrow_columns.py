"""Arrow columns as kernels read and write them, without a copy: the C stream interface, the forms of `c/arrow.h`,
offsets of byte strings and texts, bitmaps (`c/pack_bits.c`)."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from enum import IntEnum

import polars as pl
import pyarrow as pa

from headrace.kernels.library import kernel

# its own prototype: setting the types of `ctypes.pythonapi.PyCapsule_GetPointer` would change them process-wide
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class Form(IntEnum):
    """`enum form`: the physical type of a column's values."""

    INT32 = 0
    INT64 = 1
    INT128 = 2
    FLOAT32 = 3
    FLOAT64 = 4
    TEXT = 5
    ANY = 6


def stream_address(capsule: object) -> int:
    """The address of the stream in a capsule that `__arrow_c_stream__` returned; released with the capsule."""
    address = _capsule_pointer(capsule, b"arrow_array_stream")
    assert isinstance(address, int), "PyCapsule_GetPointer raises if there is no stream"
    return address


def key_form(dtype: pl.DataType) -> Form | None:
    """The form of a key column; None for types that tables do not support."""
    form = value_form(dtype)
    if dtype in (pl.String, pl.Binary):
        return Form.TEXT
    return None if form is Form.ANY else form


def value_form(dtype: pl.DataType) -> Form:
    """The form of an argument column; ANY for types that support only `count`."""
    if dtype == pl.Int64 or dtype == pl.Datetime("us") or dtype == pl.Datetime("us", "UTC"):
        return Form.INT64
    if dtype == pl.Float64:
        return Form.FLOAT64
    if dtype in (pl.Int32, pl.Date):
        return Form.INT32
    if dtype == pl.Float32:
        return Form.FLOAT32
    if dtype == pl.Int128 or dtype.is_decimal():
        return Form.INT128
    return Form.ANY


def offset_bytes(dtype: pa.DataType) -> int:
    """Bytes of an offset of binary, string, large_binary or large_string; 0 for other types."""
    if pa.types.is_large_binary(dtype) or pa.types.is_large_string(dtype):
        return 8
    return 4 if pa.types.is_binary(dtype) or pa.types.is_string(dtype) else 0


def packed_bits(flags: int, count: int) -> pa.Buffer:
    """The bitmap of `count` bytes at the address `flags`, each 0 or 1."""
    bits = pa.allocate_buffer((count + 7) // 8)
    kernel("headrace_pack_bits", None, c_void_p, c_int64, c_void_p)(flags, count, bits.address)
    return bits
