"""Passes columns of frames to kernels without a copy: Arrow's C stream interface, and the forms of `c/arrow.h`."""

from __future__ import annotations

import ctypes
from enum import IntEnum

import polars as pl

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
