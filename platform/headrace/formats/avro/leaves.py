"""Which values of Avro types without children become which columns, and by which instruction: the table of types."""

from __future__ import annotations

from dataclasses import replace

from headrace.core.types import MICROSECONDS, DataType, Decimal, Primitive, Struct, Timestamp
from headrace.formats.avro.columns import DURATION
from headrace.formats.avro.schema import AvroType, Fixed, Logical, Plain, PlainKind
from headrace.kernels.avro_instruction import Instruction
from headrace.kernels.decode.avro_program import Op, Text

_TICKS_US = {"timestamp-millis": 1_000, "timestamp-micros": 1}
_NANOS = {"timestamp-nanos", "local-timestamp-nanos"}


def leaf(writer: Plain | Fixed, reader: AvroType | None, dtype: DataType, *, lossy: bool) -> Instruction | None:
    """The instruction that reads a value of `writer` to a column of type `dtype`, without the column; None if it does
    not fit.

    reader  the type in which the value passes, if the pipeline has a reader's schema: `writer` can be read as it
    lossy   nanoseconds may be cut to microseconds
    """
    logical = writer.logical or (reader.logical if isinstance(reader, Plain | Fixed) else None)
    passed = reader.kind if isinstance(reader, Plain) else None
    if logical is not None and logical.name == "decimal":
        return _decimal(writer, logical, dtype)
    if isinstance(writer, Fixed):
        return _fixed(writer, logical, dtype)
    match writer.kind:
        case PlainKind.BOOLEAN:
            return Instruction(Op.BOOL) if dtype is Primitive.BOOL else None
        case PlainKind.INT | PlainKind.LONG:
            found = _integer(passed or writer.kind, logical, dtype, lossy=lossy)
            return found and replace(found, count=int(writer.kind is PlainKind.INT))
        case PlainKind.FLOAT if dtype is Primitive.FLOAT32:
            return None if passed is PlainKind.DOUBLE else Instruction(Op.FLOAT32)
        case PlainKind.FLOAT:
            return Instruction(Op.FLOAT32_FLOAT64) if dtype is Primitive.FLOAT64 else None
        case PlainKind.DOUBLE:
            return Instruction(Op.FLOAT64) if dtype is Primitive.FLOAT64 else None
        case PlainKind.BYTES | PlainKind.STRING:
            return _text(logical, dtype)
        case PlainKind.NULL:
            return None


def skipped(writer: Plain | Fixed) -> Instruction:
    """The instruction that skips a value."""
    if isinstance(writer, Fixed):
        return Instruction(Op.SKIP_FIXED, count=writer.size)
    match writer.kind:
        case PlainKind.NULL:
            return Instruction(Op.SKIP_FIXED, count=0)
        case PlainKind.BOOLEAN:
            return Instruction(Op.SKIP_FIXED, count=1)
        case PlainKind.INT | PlainKind.LONG:
            return Instruction(Op.SKIP_INTEGER)
        case PlainKind.FLOAT:
            return Instruction(Op.SKIP_FIXED, count=4)
        case PlainKind.DOUBLE:
            return Instruction(Op.SKIP_FIXED, count=8)
        case PlainKind.BYTES | PlainKind.STRING:
            return Instruction(Op.SKIP_BINARY)


def _decimal(writer: Plain | Fixed, logical: Logical, dtype: DataType) -> Instruction | None:
    size = writer.size if isinstance(writer, Fixed) else -1
    match dtype:
        case Decimal(_, scale):
            return Instruction(Op.DECIMAL, count=size, first=logical.precision, second=scale - logical.scale)
        case Primitive.STRING:
            return Instruction(Op.TEXT, count=size, first=Text.DECIMAL, second=logical.scale)
        case Primitive.BINARY:
            return Instruction(Op.BINARY) if size < 0 else Instruction(Op.FIXED, count=size)
        case _:
            return None


def _fixed(writer: Fixed, logical: Logical | None, dtype: DataType) -> Instruction | None:
    match dtype:
        case Primitive.BINARY:
            return Instruction(Op.FIXED, count=writer.size)
        case Primitive.STRING if logical is not None and logical.name == "uuid":
            return Instruction(Op.UUID)
        case Struct(fields) if logical is not None and logical.name == "duration":
            is_fit = [(item.name, item.type) for item in fields] == [(item.name, item.type) for item in DURATION.fields]
            return Instruction(Op.DURATION) if is_fit else None
        case _:
            return None


def _integer(kind: PlainKind, logical: Logical | None, dtype: DataType, *, lossy: bool) -> Instruction | None:
    """kind: the type in which the value passes."""
    if kind is PlainKind.FLOAT:
        floats = {Primitive.FLOAT32: Op.INTEGER_FLOAT32, Primitive.FLOAT64: Op.INTEGER_FLOAT32_FLOAT64}
    elif kind is PlainKind.DOUBLE or logical is not None:
        floats = {Primitive.FLOAT64: Op.INTEGER_FLOAT64} if logical is None else {}
    else:
        floats = {Primitive.FLOAT32: Op.INTEGER_FLOAT32, Primitive.FLOAT64: Op.INTEGER_FLOAT64}
    if isinstance(dtype, Primitive) and dtype in floats:
        return Instruction(floats[dtype])
    if kind not in {PlainKind.INT, PlainKind.LONG}:
        return None
    match dtype:
        case Primitive.INT32:
            return Instruction(Op.INT32) if kind is PlainKind.INT else None
        case Primitive.INT64:
            return Instruction(Op.INT64)
        case Primitive.DATE:
            is_date = logical is None or logical.name == "date"
            return Instruction(Op.INT32) if kind is PlainKind.INT and is_date else None
        case Timestamp(unit):
            return _timestamp(MICROSECONDS[unit], logical, lossy=lossy)
        case _:
            return None


def _timestamp(tick_us: int, logical: Logical | None, *, lossy: bool) -> Instruction | None:
    """tick_us: that of integers without a meaning."""
    if logical is not None:
        name = logical.name.removeprefix("local-")
        if logical.name in _NANOS:
            return Instruction(Op.FLOORED) if lossy else None
        if name not in _TICKS_US:
            return None
        tick_us = _TICKS_US[name]
    return Instruction(Op.INT64) if tick_us == 1 else Instruction(Op.SCALED, first=tick_us)


def _text(logical: Logical | None, dtype: DataType) -> Instruction | None:
    name = logical.name if logical is not None else None
    match dtype:
        case Primitive.STRING | Decimal() if name == "big-decimal":
            return Instruction(Op.TEXT, first=Text.BIG_DECIMAL)
        case Primitive.STRING:
            return Instruction(Op.STRING)
        case Primitive.BINARY:
            return Instruction(Op.BINARY)
        case Timestamp() if name == "zoned-timestamp":
            return Instruction(Op.TEXT, first=Text.ZONED_TIMESTAMP)
        case _:
            return None
