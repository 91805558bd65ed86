"""Columns of frames as kernels read them, without a copy: Arrow's C stream interface, and the forms of `c/arrow.h`."""

from __future__ import annotations

import ctypes
from enum import IntEnum

import polars as pl

# a prototype of its own: the types of `ctypes.pythonapi.PyCapsule_GetPointer` are those of the whole process
_capsule_pointer = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


class Form(IntEnum):
    """`enum form`: what the values of a column look like."""

    INT32 = 0
    INT64 = 1
    INT128 = 2
    FLOAT32 = 3
    FLOAT64 = 4
    TEXT = 5
    ANY = 6


def stream_address(capsule: object) -> int:
    """The address of the stream in what `__arrow_c_stream__` returned. It is released with the capsule."""
    address = _capsule_pointer(capsule, b"arrow_array_stream")
    assert isinstance(address, int), "PyCapsule_GetPointer raises where there is none"
    return address


def key_form(dtype: pl.DataType) -> Form | None:
    """The form of a key column; None for types that no table takes."""
    form = value_form(dtype)
    if dtype in (pl.String, pl.Binary):
        return Form.TEXT
    return None if form is Form.ANY else form


def value_form(dtype: pl.DataType) -> Form:
    """The form of an argument column; ANY for types of which rows are only counted."""
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
