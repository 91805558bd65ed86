"""State as Parquet files: chunks to row groups and back, bit for bit, and states as single tables for savepoints.

    write_chunks([chunk, ..])   -> files; each chunk is one row group of one of them
    read_row_groups(data, [..]) -> the frames of those row groups, as they were
    write_table(frames)         -> one file with all rows, which users and other engines can read (savepoint form)
    plain_batches(data, schema) -> its rows as Arrow types that every engine reads, without polars frames between

Chunks of one state may differ in columns: a file has their union. A column that a chunk lacks is NULL in its row group
and dropped again on reading (`headrace.absent` in the file's metadata). Chunks in which one column has different types
go to different files. Parquet has no 128-bit integers: they are written as decimal(38, 0) and listed in
`headrace.int128`. Timestamps are microseconds; nothing is dictionary-typed.

This module must not know storage. It is the only module of its layer that uses pyarrow.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import polars_hash
import pyarrow as pa
import pyarrow.parquet as pq
from polars.datatypes import DataTypeClass

from headrace.core.errors import InternalError
from headrace.state.dtype_text import dtype_of
from headrace.state.snapshot import Chunk

_ABSENT, _INT128 = b"headrace.absent", b"headrace.int128"
_WHOLE = pl.Decimal(38, 0)
_CHECKSUM_SEED = 0
PLAIN_ROWS_MAX = 65_536
"""Rows of one batch for other engines."""
_PLAIN_TYPES: Mapping[str, pa.DataType] = {
    "Int128": pa.decimal128(38, 0),
    "UInt8": pa.int16(),
    "UInt16": pa.int32(),
    "UInt32": pa.int64(),
    "UInt64": pa.decimal128(20, 0),
    "String": pa.string(),
    "Binary": pa.binary(),
}


@dataclass(frozen=True, slots=True)
class StateFile:
    """A Parquet file of state.

    row_groups  chunk id -> its row group
    rows        rows of each row group
    columns     column name -> polars type
    """

    data: bytes
    row_groups: dict[int, int]
    rows: tuple[int, ...]
    columns: dict[str, str]


def checksum(data: bytes) -> str:
    """`xxh64:<hex>` of bytes."""
    expression: pl.Expr = polars_hash.col("data").nchash.xxhash64(seed=_CHECKSUM_SEED)
    value = pl.DataFrame({"data": [data]}, schema={"data": pl.Binary}).select(expression).item()
    return f"xxh64:{value:016x}"


def write_chunks(chunks: Iterable[Chunk]) -> list[StateFile]:
    """Files with one row group per non-empty chunk; empty chunks are omitted."""
    sets: list[tuple[pl.Schema, list[Chunk]]] = []
    for chunk in chunks:
        if not chunk.frame.height:
            continue
        for schema, members in sets:
            if _agrees(schema, chunk.frame.schema):
                schema.update(chunk.frame.schema)
                members.append(chunk)
                break
        else:
            sets.append((pl.Schema(chunk.frame.schema), [chunk]))
    return [_file(schema, members) for schema, members in sets]


def write_table(frames: Sequence[pl.DataFrame]) -> list[StateFile]:
    """All rows in as few files as their types allow (one, unless a column has two types), a row group per frame."""
    return write_chunks(Chunk(number, frame) for number, frame in enumerate(frames))


def read_row_groups(data: bytes, row_groups: Sequence[int] | None = None) -> list[pl.DataFrame]:
    """The frames of these row groups (None: all), as they were written. Raises InternalError if `data` is not a file of
    `write_chunks` or `write_table`."""
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        metadata = file.schema_arrow.metadata or {}
        absent = json.loads(metadata.get(_ABSENT, b"[]"))
        wide = json.loads(metadata.get(_INT128, b"[]"))
        wanted = range(file.num_row_groups) if row_groups is None else row_groups
        return [_frame(file.read_row_group(number), wide, absent[number] if absent else ()) for number in wanted]
    except (pa.ArrowException, ValueError, OSError) as error:
        raise InternalError(f"state that cannot be read: {error}") from error


def plain_schema(columns: Mapping[str, str]) -> pa.Schema:
    """The Arrow schema for a state's columns (name -> polars type as text), with types that other engines have: 128-bit
    integers as decimal(38, 0), unsigned integers as wider signed ones, no large and no view types."""
    return pa.schema([(name, _plain_type(dtype_of(text))) for name, text in columns.items()])


def plain_batches(
    data: bytes, schema: pa.Schema, row_groups: Sequence[int] | None = None, *, rows_max: int = PLAIN_ROWS_MAX
) -> Iterator[pa.RecordBatch]:
    """The rows of these row groups (None: all) as batches of `schema`; a column that the file lacks is NULL.

    Raises InternalError if `data` is not a state file.
    """
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        there = [name for name in schema.names if name in file.schema_arrow.names]
        for number in range(file.num_row_groups) if row_groups is None else row_groups:
            table = file.read_row_group(number, columns=there)
            if not there:
                table = table.select([])
            for item in (item for item in schema if item.name not in there):
                table = table.append_column(item, pa.nulls(table.num_rows, item.type))
            for batch in table.select(schema.names).to_batches(max_chunksize=rows_max):
                yield batch.cast(schema)
    except (pa.ArrowException, ValueError, OSError) as error:
        raise InternalError(f"state that cannot be read: {error}") from error


def _plain_type(dtype: pl.DataType | DataTypeClass) -> pa.DataType:
    match dtype:
        case pl.List():
            return pa.list_(_plain_type(dtype.inner))
        case pl.Struct():
            return pa.struct([(field.name, _plain_type(field.dtype)) for field in dtype.fields])
    known = _PLAIN_TYPES.get(str(dtype))
    return pl.Series([], dtype=dtype).to_arrow(compat_level=pl.CompatLevel.oldest()).type if known is None else known


def _agrees(schema: pl.Schema, other: pl.Schema) -> bool:
    return all(schema.get(name, dtype) == dtype for name, dtype in other.items())


def _file(schema: pl.Schema, chunks: Sequence[Chunk]) -> StateFile:
    wide = [name for name, dtype in schema.items() if dtype == pl.Int128]
    absent = [[name for name in schema if name not in chunk.frame.schema] for chunk in chunks]
    tables = [_table(chunk.frame, schema, lacking) for chunk, lacking in zip(chunks, absent, strict=True)]
    metadata = {_INT128: json.dumps(wide)} | ({_ABSENT: json.dumps(absent)} if any(absent) else {})
    arrow = tables[0].schema.with_metadata({key: value.encode() for key, value in metadata.items()})
    out = io.BytesIO()
    with pq.ParquetWriter(out, arrow, compression="zstd", compression_level=1, use_dictionary=False) as writer:
        for table in tables:
            writer.write_table(table.cast(arrow), row_group_size=max(1, table.num_rows))
    return StateFile(
        out.getvalue(),
        {chunk.id: number for number, chunk in enumerate(chunks)},
        tuple(chunk.frame.height for chunk in chunks),
        {name: str(dtype) for name, dtype in schema.items()},
    )


def _table(frame: pl.DataFrame, schema: pl.Schema, lacking: Sequence[str]) -> pa.Table:
    missing = [pl.lit(None, dtype=schema[name]).alias(name) for name in lacking]
    whole = [pl.col(name).cast(_WHOLE) for name, dtype in schema.items() if dtype == pl.Int128]
    return (
        frame.with_columns(missing)
        .with_columns(whole)
        .select(schema.names())
        .to_arrow(compat_level=pl.CompatLevel.oldest())
    )


def _frame(table: pa.Table, wide: Sequence[str], lacking: Sequence[str]) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame), "tables become frames"
    return frame.drop(lacking).with_columns(pl.col(name).cast(pl.Int128) for name in wide if name not in lacking)
