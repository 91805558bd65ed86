"""Arrow columns of bytes or text in the struct that kernels read: `c/kafka/binary_column.h`."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p

import pyarrow as pa

from headrace.kernels.arrow_columns import offset_bytes


class BinaryColumn(ctypes.Structure):
    """`binary_column_t`. All zeros: no column, every value is NULL."""

    _fields_ = (
        ("data", c_void_p),
        ("data_bytes", c_int64),
        ("offsets", c_void_p),
        ("offset_bytes", c_int64),
        ("valid", c_void_p),
        ("first_bit", c_int64),
    )


def binary_column(column: pa.Array | None) -> BinaryColumn | None:
    """The column as a struct; None for a column of another type, which kernels do not read.

    column: Arrow binary, string, large_binary or large_string, which the caller keeps alive; None: no column
    """
    if column is None:
        return BinaryColumn()
    if not isinstance(column, pa.Array):
        return None
    width = offset_bytes(column.type)
    if not width:
        return None
    valid, offsets, data = column.buffers()
    first = column.offset
    return BinaryColumn(
        # a column of empty values may have no data buffer; the values are not NULL, so they need an address
        offsets.address if data is None else data.address,
        0 if data is None else data.size,
        offsets.address + first * width,
        width,
        None if valid is None else valid.address,
        first,
    )
