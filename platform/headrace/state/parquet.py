"""State as Parquet files: chunks to row groups and back, bit for bit, and states as single tables for savepoints.

    write_chunks([chunk, ..])   -> files; each chunk is one row group of one of them
    read_row_groups(data, [..]) -> the frames of those row groups, as they were
    write_table(frames)         -> one file with all rows, for people and other engines too (savepoint form)

Chunks of one state may differ in columns: a file has the union of them, and what a chunk did not have is NULL in its
row group and left out again when it is read (`headrace.absent` in the file's metadata). Chunks in which one column
has different types go to different files. Whole numbers of 128 bits, which Parquet does not have, are written as
decimal(38, 0) and named in `headrace.int128`. Timestamps are microseconds; nothing is dictionary-typed.

Knows nothing of where files lie. The one module of this layer that uses pyarrow.
"""

from __future__ import annotations

import io
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import polars as pl
import polars_hash
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.errors import InternalError
from headrace.state.snapshot import Chunk

_ABSENT, _INT128 = b"headrace.absent", b"headrace.int128"
_WHOLE = pl.Decimal(38, 0)
_CHECKSUM_SEED = 0


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
    """Files with one row group per chunk that has rows; chunks without rows are left out."""
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
    """The frames of these row groups (None: all), as they were written. Raises InternalError for bytes that are no
    such file."""
    try:
        file = pq.ParquetFile(io.BytesIO(data))
        metadata = file.schema_arrow.metadata or {}
        absent = json.loads(metadata.get(_ABSENT, b"[]"))
        wide = json.loads(metadata.get(_INT128, b"[]"))
        wanted = range(file.num_row_groups) if row_groups is None else row_groups
        return [_frame(file.read_row_group(number), wide, absent[number] if absent else ()) for number in wanted]
    except (pa.ArrowException, ValueError, OSError) as error:
        raise InternalError(f"state that cannot be read: {error}") from error


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
