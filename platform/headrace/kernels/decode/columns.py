"""Typed columns that a kernel fills, laid out as in `c/decode/columns.h`: their memory and the resulting polars frame.

`ColumnLayout` is immutable: the tree of a schema's columns as the kernel reads it. `Columns` is mutable: the buffers of
one batch. Arrow allocates the memory, so that any thread may release it; the frame shares it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from headrace.core.types import MICROSECONDS, DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.kernels.arrow_columns import packed_bits

TEXT_BYTES_MAX = (1 << 31) - 1
"""Most bytes of one buffer that views can refer to."""
_DEPTH_MAX = 32
"""Most levels of lists and structs in a schema: kernels call themselves once per level."""
_ELEMENTS_MIN = 64
_WASTE_MAX = 2
"""A text buffer is cut to its used size if it is more than this many times as large."""


class Kind(IntEnum):
    """`enum kind`."""

    BOOL = 0
    INT32 = 1
    INT64 = 2
    FLOAT32 = 3
    FLOAT64 = 4
    STRING = 5
    BINARY = 6
    DATE = 7
    TIMESTAMP = 8
    DECIMAL = 9
    LIST = 10
    STRUCT = 11


COLUMN = np.dtype(
    [
        ("kind", "<i8"),
        ("is_nullable", "<i8"),
        ("first_child", "<i8"),
        ("child_count", "<i8"),
        ("parameter", "<i8"),
        ("scale", "<i8"),
        ("name", "<u8"),
        ("name_bytes", "<i8"),
        ("values", "<u8"),
        ("valid", "<u8"),
        ("rows", "<i8"),
        ("rows_max", "<i8"),
        ("nulls", "<i8"),
    ]
)
"""`column_t`."""

_KINDS = {
    Primitive.BOOL: (Kind.BOOL, 1, pa.bool_()),
    Primitive.INT32: (Kind.INT32, 4, pa.int32()),
    Primitive.INT64: (Kind.INT64, 8, pa.int64()),
    Primitive.FLOAT32: (Kind.FLOAT32, 4, pa.float32()),
    Primitive.FLOAT64: (Kind.FLOAT64, 8, pa.float64()),
    Primitive.STRING: (Kind.STRING, 16, pa.string_view()),
    Primitive.BINARY: (Kind.BINARY, 16, pa.binary_view()),
    Primitive.DATE: (Kind.DATE, 4, pa.date32()),
}


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the tree. The children of a column are adjacent in the list of all columns.

    width       bytes of a value; 8 of a list's end, 0 of a struct
    list_above  the index of the nearest list above it: it has as many values as that has elements; None: one a row
    """

    field: Field
    kind: Kind
    width: int
    arrow: pa.DataType
    first_child: int
    child_count: int
    list_above: int | None


class ColumnLayout:
    """The columns of one schema; the first one is the row itself.

    names   of all columns, in their order
    top     indices of the schema's own columns
    """

    def __init__(self, schema: Schema) -> None:
        self.columns = list(_tree(schema))
        self.names = [column.field.name for column in self.columns]
        self.template = np.zeros(len(self.columns), COLUMN)
        quoted = [b'"' + name.encode() + b'"' for name in self.names]
        # kept here: the kernel holds bare pointers into it
        self._quoted = ctypes.create_string_buffer(b"".join(quoted))
        at = ctypes.addressof(self._quoted)
        for column, row, name in zip(self.columns, self.template, quoted, strict=True):
            row["kind"], row["is_nullable"] = column.kind, column.field.nullable
            row["first_child"], row["child_count"] = column.first_child, column.child_count
            row["parameter"], row["scale"] = _parameters(column.field.type)
            row["name"], row["name_bytes"] = at, len(name)
            at += len(name)
        self.top = range(1, 1 + len(schema))
        self.schema_names = list(schema.names)


def is_supported(schema: Schema) -> bool:
    """Whether kernels decode to these columns: not to structs without fields, nor to too many levels."""
    return all(_fits(item.type, 1) for item in schema)


def _fits(dtype: DataType, depth: int) -> bool:
    match dtype:
        case ListOf(inner):
            return depth < _DEPTH_MAX and _fits(inner, depth + 1)
        case Struct(fields):
            return depth < _DEPTH_MAX and bool(fields) and all(_fits(item.type, depth + 1) for item in fields)
        case _:
            return True


def _tree(schema: Schema) -> Iterator[Column]:
    """All columns, breadth first, so that children of one stand side by side."""
    waiting: list[tuple[Field, int | None]] = [(Field("", Struct(schema.fields), nullable=False), None)]
    at = 0
    while at < len(waiting):
        field, list_above = waiting[at]
        first, children = len(waiting), _children(field.type)
        kind, width, arrow = _form(field.type)
        waiting += [(child, at if kind is Kind.LIST else list_above) for child in children]
        yield Column(field, kind, width, arrow, first if children else 0, len(children), list_above)
        at += 1


def _children(dtype: DataType) -> tuple[Field, ...]:
    match dtype:
        case ListOf(inner, nullable):
            return (Field("item", inner, nullable),)
        case Struct(fields):
            return tuple(fields)
        case _:
            return ()


def _form(dtype: DataType) -> tuple[Kind, int, pa.DataType]:
    """Kind, bytes of a value, and Arrow's type."""
    match dtype:
        case Primitive():
            return _KINDS[dtype]
        case Timestamp():
            return Kind.TIMESTAMP, 8, pa.timestamp("us", "UTC")
        case Decimal(precision, scale):
            return Kind.DECIMAL, 16, pa.decimal128(precision, scale)
        case ListOf(inner):
            return Kind.LIST, 8, pa.large_list(_form(inner)[2])
        case Struct(fields):
            return Kind.STRUCT, 0, pa.struct([(item.name, _form(item.type)[2]) for item in fields])


def _parameters(dtype: DataType) -> tuple[int, int]:
    match dtype:
        case Timestamp(unit):
            return MICROSECONDS[unit], 0
        case Decimal(precision, scale):
            return precision, scale
        case _:
            return 0, 0


class Columns:
    """The memory of one batch of at most `rows_max` rows and `text_bytes` bytes of messages."""

    def __init__(self, layout: ColumnLayout, rows_max: int, text_bytes: int) -> None:
        assert text_bytes <= TEXT_BYTES_MAX, "views have 32 bits for an offset"
        self._layout = layout
        self.table = layout.template.copy()
        self.text = pa.allocate_buffer(text_bytes)
        self._values: list[pa.Buffer | None] = [None] * len(layout.columns)
        self._flags: list[npt.NDArray[np.uint8]] = [np.empty(0, np.uint8)] * len(layout.columns)
        for index in range(1, len(layout.columns)):
            is_repeated = layout.columns[index].list_above is not None
            self._allocate(index, max(rows_max, _ELEMENTS_MIN) if is_repeated else rows_max)

    def _allocate(self, index: int, rows_max: int) -> None:
        column, row = self._layout.columns[index], self.table[index]
        is_list, is_bool = column.kind is Kind.LIST, column.kind is Kind.BOOL
        flags = np.empty(rows_max * (2 if is_bool else 1), np.uint8)
        self._flags[index] = flags
        row["valid"], row["rows_max"] = flags.ctypes.data, rows_max
        if is_bool:
            # bytes until they are packed
            row["values"] = flags.ctypes.data + rows_max
        elif column.width:
            values = pa.allocate_buffer((rows_max + is_list) * column.width)
            self._values[index] = values
            row["values"] = values.address
            if is_list:
                ctypes.memset(values.address, 0, column.width)

    def grow(self, index: int) -> None:
        """Gives column `index`, which is below a list and full, twice its room, and all columns of the same list.

        Those have as many values, and are full next: the message is read again once for all of them, not for each.
        """
        list_above = self._layout.columns[index].list_above
        assert list_above is not None, "other columns have room for each row"
        for other, column in enumerate(self._layout.columns):
            if column.list_above == list_above:
                self._double(other)

    def _double(self, index: int) -> None:
        row, column = self.table[index], self._layout.columns[index]
        rows, values = int(row["rows_max"]), int(row["values"])
        # variables keep the old memory alive until it is copied
        flags, _buffer = self._flags[index], self._values[index]
        self._allocate(index, rows * 2)
        self._flags[index][:rows] = flags[:rows]
        if column.width:
            is_list = column.kind is Kind.LIST
            ctypes.memmove(int(row["values"]), values, (rows + is_list) * column.width)

    def frame(self, text_bytes: int) -> pl.DataFrame:
        """The rows that the kernel wrote. `text_bytes`: how much of `text` it used."""
        text = self._text(text_bytes)
        arrays = [self._array(index, text) for index in self._layout.top]
        return pl.DataFrame(pa.RecordBatch.from_arrays(arrays, names=self._layout.schema_names))

    def _text(self, used: int) -> list[pa.Buffer]:
        if not used:
            return []
        if used * _WASTE_MAX >= self.text.size:
            return [self.text]
        cut = pa.allocate_buffer(used)
        ctypes.memmove(cut.address, self.text.address, used)
        return [cut]

    def _array(self, index: int, text: list[pa.Buffer]) -> pa.Array:
        column, row = self._layout.columns[index], self.table[index]
        rows, nulls = int(row["rows"]), int(row["nulls"])
        validity = packed_bits(int(row["valid"]), rows) if nulls else None
        buffers = [validity, self._values[index]]
        children = range(column.first_child, column.first_child + column.child_count)
        match column.kind:
            case Kind.BOOL:
                buffers[1] = packed_bits(int(row["values"]), rows)
            case Kind.STRING | Kind.BINARY:
                buffers += text
            case Kind.STRUCT:
                buffers = [validity]
            case _:
                pass
        inner = [self._array(child, text) for child in children]
        return pa.Array.from_buffers(column.arrow, rows, buffers, null_count=nulls, children=inner or None)
