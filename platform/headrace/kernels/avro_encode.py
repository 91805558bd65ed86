"""Encodes columns as Avro messages, one per row: `c/encode/avro_encode.c`.

The kernel reads the columns in polars' memory, through Arrow's C stream interface, and runs a program that was made for
the writer's schema and the columns.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import polars as pl
import pyarrow as pa

from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.kernels.arrow_columns import stream_address
from headrace.kernels.avro_instruction import Instruction
from headrace.kernels.decode.columns import is_supported
from headrace.kernels.growing_text import growing_text
from headrace.kernels.library import is_loaded, kernel

FIELD_BYTES = 88
"""`sizeof(field_t)`."""
_ARROW_SCHEMA_WORDS = 9
_ARROW_ARRAY_WORDS = 10
_ROW_BYTES_GUESS = 8
"""For each instruction."""


class Put(IntEnum):
    """`enum put`: what an instruction writes, of the field that its `column` names. See `Instruction` for the rest."""

    CONSTANT = 0
    """Bytes of the pool. first: their place; count: their number."""
    REQUIRED = 1
    """Nothing: NULL is doubt."""
    NULLABLE = 2
    """The index of a union's branch: `first` for NULL, which ends it, `second` before the body."""
    RECORD = 3
    """The body writes the fields of a struct."""
    ARRAY = 4
    """The body writes one item."""
    UNION = 5
    """The body is `count` BRANCH instructions, of which the one whose field is set is run. first: the index of null, or
    -1 if NULL is doubt."""
    BRANCH = 6
    """One branch of a union. first: its index."""
    INT = 7
    LONG = 8
    FLOORED = 9
    """A long that is the int64 divided by 1,000, rounded down."""
    MULTIPLIED = 10
    """A long that is the int64 times `first`."""
    FLOAT = 11
    FLOAT_DOUBLE = 12
    DOUBLE = 13
    BOOL = 14
    TEXT = 15
    FIXED = 16
    """count: the bytes that a value must have."""
    ENUM = 17
    """count: symbols; first: the index of the first one."""
    DECIMAL = 18
    """count: bytes of a fixed, or -1; first: the digits that a value may have, 0: any."""


_BYTES = {
    **{Put.REQUIRED: 0, Put.NULLABLE: 1, Put.RECORD: 0, Put.ARRAY: 11, Put.UNION: 10, Put.BRANCH: 0, Put.TEXT: 0},
    **{Put.FLOAT: 4, Put.FLOAT_DOUBLE: 8, Put.DOUBLE: 8, Put.BOOL: 1, Put.DECIMAL: 26},
}
"""Most bytes of an instruction, its texts and its body left aside; 10 of others, and `count` beyond that."""


@dataclass(frozen=True, slots=True)
class AvroWriting:
    """How rows of some columns become messages of one schema.

    instructions  their columns are indices of `fields`
    pool          symbols, and bytes that no column has
    symbols       begin and length in the pool, for each symbol of each enum
    """

    columns: Schema
    instructions: tuple[Instruction, ...]
    pool: bytes = b""
    symbols: tuple[tuple[int, int], ...] = ()


def fields_of(columns: Schema) -> tuple[list[Field], list[int]]:
    """All fields of the columns in the order of `c/encode/fields.h`, and the index of the first child of each."""
    fields, first = list(columns), [0] * len(columns)

    def place(index: int) -> None:
        inner = _children(fields[index].type)
        begin = first[index] = len(fields)
        fields.extend(inner)
        first.extend([0] * len(inner))
        for child in range(begin, begin + len(inner)):
            place(child)

    for column in range(len(columns)):
        place(column)
    return fields, first


def _children(dtype: DataType) -> Sequence[Field]:
    match dtype:
        case ListOf(inner, nullable):
            return (Field("item", inner, nullable),)
        case Struct(inner_fields):
            return inner_fields
        case _:
            return ()


class AvroEncodeState(ctypes.Structure):
    """`avro_encode_t`."""

    _fields_ = (
        ("stream", ctypes.c_void_p),
        ("instructions", ctypes.c_void_p),
        ("instruction_count", ctypes.c_int64),
        ("pool", ctypes.c_char_p),
        ("symbols", ctypes.c_void_p),
        ("kinds", ctypes.c_void_p),
        ("field_count", ctypes.c_int64),
        ("column_count", ctypes.c_int64),
        ("row_count", ctypes.c_int64),
        ("fixed_bytes_max", ctypes.c_int64),
        ("fields", ctypes.c_void_p),
        ("ends", ctypes.c_void_p),
        ("text", ctypes.c_void_p),
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


class AvroEncodeKernel:
    """Writes rows of one program's columns. Keeps nothing between frames: threads may share it."""

    def __init__(self, writing: AvroWriting) -> None:
        self._encode = kernel("headrace_avro_encode", ctypes.c_int64, ctypes.c_void_p)
        self._close = kernel("headrace_avro_close", None, ctypes.c_void_p)
        code = writing.instructions
        rows = [(one.op, one.column, one.jump, one.count, one.first, one.second) for one in code]
        fields, _ = fields_of(writing.columns)
        self._columns = len(writing.columns)
        self._instructions = np.array(rows, np.int64)
        self._pool = writing.pool
        self._symbols = np.array(writing.symbols, np.int64)
        self._kinds = np.array([_kind(item.type) for item in fields], np.int64)
        self._fixed_bytes_max = sum(_BYTES.get(Put(one.op), max(one.count, 10)) for one in code)
        self._row_bytes_guess = _ROW_BYTES_GUESS * len(code)

    def encode(self, rows: pl.DataFrame) -> pa.Array | None:
        """One message per row: Arrow large_binary without NULLs. None if a row does not fit the schema.

        rows: exactly the columns of the program
        """
        fields = pa.allocate_buffer(len(self._kinds) * FIELD_BYTES)
        capsule = rows.__arrow_c_stream__(None)
        state = self.state(capsule, rows.height, fields.address)
        address = ctypes.addressof(state)
        try:
            buffers = growing_text(self._encode, state, address, rows.height * self._row_bytes_guess)
        finally:
            self._close(address)
        return buffers and pa.Array.from_buffers(pa.large_binary(), rows.height, buffers, null_count=0)

    def state(self, capsule: object, row_count: int, fields: int) -> AvroEncodeState:
        """The structure that the kernel works on. The capsule holds a stream of `row_count` rows; `fields` is the
        address of FIELD_BYTES for each field."""
        return AvroEncodeState(
            stream_address(capsule),
            self._instructions.ctypes.data,
            len(self._instructions),
            self._pool,
            self._symbols.ctypes.data,
            self._kinds.ctypes.data,
            len(self._kinds),
            self._columns,
            row_count,
            self._fixed_bytes_max,
            fields,
        )


def avro_encode_kernel(writing: AvroWriting) -> AvroEncodeKernel | None:
    """The kernel for a program; None where kernels are off or missing, or do not support the columns."""
    return AvroEncodeKernel(writing) if is_loaded() and is_supported(writing.columns) else None


_KINDS = {
    Primitive.BOOL: 0,
    Primitive.INT32: 1,
    Primitive.INT64: 2,
    Primitive.FLOAT32: 3,
    Primitive.FLOAT64: 4,
    Primitive.STRING: 5,
    Primitive.BINARY: 6,
    Primitive.DATE: 7,
}


def _kind(dtype: DataType) -> int:
    """`enum field_kind`."""
    match dtype:
        case Primitive():
            return _KINDS[dtype]
        case Timestamp():
            return 8
        case Decimal():
            return 9
        case ListOf():
            return 10
        case Struct():
            return 11
