"""Fuzzes the kernel that encodes Avro: `PYTHONPATH=tests python -m fuzz.avro_encode --seconds 60 --seed 1`.

Random frames, written by the schema made of their columns: the kernel has to write all of them, byte for byte as the
row writer does, also into memory that ends at an unreadable page and is full again and again. What is read back are the
same rows. If the schema has no null, the kernel is in doubt of a frame with one.
"""

from __future__ import annotations

import sys
from collections import Counter
from random import Random

import polars as pl

from fuzz.command import Fuzzer, FuzzError, command
from fuzz.generators.rows import random_frame
from fuzz.generators.schemas import random_schema
from headrace.connect.format import Messages
from headrace.core.errors import DataError
from headrace.core.types import DataType, Field, ListOf, Schema, Struct
from headrace.formats.avro.columns import schema_text
from headrace.formats.avro.decode import avro_decoder
from headrace.formats.avro.encode import AvroEncoder
from headrace.formats.avro.resolve import resolve
from headrace.formats.avro.schema import AvroType, parse_schema
from headrace.formats.avro.write import writing
from support.kernels.bits import difference
from support.kernels.guarded_avro import guarded_messages

_GUARDED_SHARE = 0.2
_STEPS_BYTES = (1, 50, 1_000, 100_000)
_TIGHT_SHARE = 0.3


def encoding_batch(chance: Random) -> Counter[str]:
    """One frame. Raises FuzzError."""
    columns = _named(random_schema(chance))
    frame = random_frame(chance, columns)
    written = columns
    if chance.random() < _TIGHT_SHARE:
        written = Schema(tuple(Field(item.name, item.type, nullable=False) for item in columns))
    schema = parse_schema(schema_text(written))
    expected = _messages(columns, schema, frame)
    program = writing(columns, schema)
    # memory mapped for each buffer takes most of the time
    guarded_rows = chance.random() < _GUARDED_SHARE
    step_bytes = chance.choice(_STEPS_BYTES)
    _compare(frame, expected, guarded_messages(frame, program, step_bytes=step_bytes, guarded_rows=guarded_rows))
    if expected is None:
        return Counter(frames=1, refused=1)
    _compare(frame, expected, AvroEncoder(columns, schema).encode(frame).to_pylist())
    _compare_rows(frame, columns, schema)
    return Counter(frames=1, rows=frame.height, bytes=sum(map(len, expected)))


def encoding_verdict(counts: Counter[str]) -> None:
    """Raises FuzzError where nothing was compared."""
    if not counts["rows"]:
        raise FuzzError("no rows were written")


def _messages(columns: Schema, schema: AvroType, frame: pl.DataFrame) -> list[bytes] | None:
    try:
        messages: list[bytes] = AvroEncoder(columns, schema, kernels=False).encode(frame).to_pylist()
    except DataError:
        return None
    return messages


def _compare(frame: pl.DataFrame, expected: list[bytes] | None, found: list[bytes] | None) -> None:
    if expected is None or found is None:
        if expected is not found:
            raise FuzzError(f"{'sure, but refused' if expected is None else 'doubt'}: {frame.schema}")
        return
    if len(found) != len(expected):
        raise FuzzError(f"{len(found)} messages of {len(expected)} rows")
    for row, (one, other) in enumerate(zip(found, expected, strict=True)):
        if one != other:
            raise FuzzError(f"row {row}: {one!r}, the row writer: {other!r}; schema {frame.schema}")


def _compare_rows(frame: pl.DataFrame, columns: Schema, schema: AvroType) -> None:
    messages = AvroEncoder(columns, schema).encode(frame)
    decoded = avro_decoder(columns, resolve(schema, columns)).decode(Messages(messages))
    if decoded.reasons:
        raise FuzzError(f"a bad row: {decoded.reasons[0]}; {columns}")
    if problem := difference(decoded.rows, frame):
        raise FuzzError(f"{problem.text}; {columns}")


def _named(columns: Schema) -> Schema:
    """The same columns with names that Avro allows."""
    return Schema(_renamed(columns.fields))


def _renamed(fields: tuple[Field, ...]) -> tuple[Field, ...]:
    return tuple(Field(f"f{index}", _retyped(item.type), item.nullable) for index, item in enumerate(fields))


def _retyped(dtype: DataType) -> DataType:
    match dtype:
        case ListOf(inner, nullable):
            return ListOf(_retyped(inner), nullable)
        case Struct(fields):
            return Struct(_renamed(fields))
        case _:
            return dtype


FUZZER = Fuzzer("fuzz.avro_encode", encoding_batch, encoding_verdict)

if __name__ == "__main__":
    sys.exit(command(FUZZER, __doc__ or ""))
