"""State as Parquet files: chunks to row groups and back, bit for bit, and states as single tables for savepoints.

    write_chunks([chunk, ..])   -> files; each chunk is some row groups, one after the other, of one of them
    read_row_groups(data, [..]) -> the rows of those row groups, a frame for each chunk
    write_table(frames)         -> one file with all rows, which users and other engines can read (savepoint form)
    plain_batches(data, schema) -> its rows as Arrow types that every engine reads, without polars frames between
    footer_bytes(end), row_groups_of(data) -> what to read of a file first, and its row groups (`state.row_groups`)

The footer has a checksum of its own (`headrace.footer`), computed with its digits zero: a reader of some row groups
cannot verify the file as a whole.

Chunks of one state may differ in columns: a file has their union. A column that a chunk lacks is NULL in its row group
and dropped again on reading (`headrace.absent` in the file's metadata). Chunks in which one column has different types
go to different files. Parquet has no 128-bit integers: they are written as decimal(38, 0) and listed in
`headrace.int128`. Timestamps are microseconds; nothing is dictionary-typed.

This module must not know storage. It is the only module of its layer that uses pyarrow.
"""

from __future__ import annotations

import ast
import io
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Literal

import polars as pl
import polars_hash
import pyarrow as pa
import pyarrow.parquet as pq
from polars.datatypes import DataTypeClass

from headrace.core.errors import ExternalError, InternalError
from headrace.core.polars_types import int128_columns, with_int128, without_int128
from headrace.state.row_groups import ROW_GROUPS, KeyOrder, RowGroup, RowGroups, SortedRows, cuts
from headrace.state.snapshot import Chunk

Data = bytes | memoryview

_ABSENT, _INT128 = b"headrace.absent", b"headrace.int128"
_ROW_GROUPS, _FOOTER = b"headrace.row_groups", b"headrace.footer"
_NO_CHECKSUM = "xxh64:0000000000000000"
_LENGTH_BYTES = 8
"""The end of a Parquet file: the length of its footer, and a magic number."""
_CHECKSUM_SEED = 0
FILE_BYTES_MAX = 64 << 20
"""Bytes of the rows of a file, as they lie in memory, where the budget does not say less."""
_CONVERTED_ROWS_MAX = 65_536
"""Rows of a file that are converted to Arrow at once."""
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

    row_groups  chunk id -> its row groups
    rows        rows of each row group
    columns     column name -> polars type
    """

    data: bytes
    row_groups: dict[int, range]
    rows: tuple[int, ...]
    columns: dict[str, str]


def checksum(data: bytes) -> str:
    """`xxh64:<hex>` of bytes."""
    (found,) = checksums([data])
    return found


def checksums(parts: Sequence[bytes]) -> list[str]:
    """As `checksum`, for many parts at once: a call costs as much as 100 kB."""
    expression: pl.Expr = polars_hash.col("data").nchash.xxhash64(seed=_CHECKSUM_SEED)
    values = pl.DataFrame({"data": parts}, schema={"data": pl.Binary}).select(expression).to_series()
    return [f"xxh64:{value:016x}" for value in values.to_list()]


def write_chunks(
    chunks: Iterable[Chunk], order: KeyOrder | None = None, *, file_bytes_max: int = FILE_BYTES_MAX
) -> Iterator[StateFile]:
    """Files with the row groups of each chunk, of at most `ROW_GROUP_ROWS_MAX` rows; empty chunks are omitted.

    A file is written when it is asked for, and is of about `file_bytes_max` bytes of rows at most, or of one chunk.
    order: of a keyed state; its rows are sorted.
    """
    sets: list[_FileSet] = []
    for chunk in chunks:
        if not chunk.frame.height:
            continue
        chosen = next((each for each in sets if each.takes(chunk)), None)
        if chosen is None:
            chosen = _FileSet(file_bytes_max)
            sets.append(chosen)
        chosen.add(chunk)
    for each in sets:
        yield _file(each.schema, each.chunks, order)


@dataclass(slots=True)
class _FileSet:
    """Chunks of one file: no column has two types."""

    bytes_max: int
    schema: pl.Schema = field(default_factory=pl.Schema)
    chunks: list[Chunk] = field(default_factory=list)
    bytes: int = 0

    def takes(self, chunk: Chunk) -> bool:
        fits = self.bytes + chunk.frame.estimated_size() <= self.bytes_max
        return fits and _agrees(self.schema, chunk.frame.schema)

    def add(self, chunk: Chunk) -> None:
        self.schema.update(chunk.frame.schema)
        self.chunks.append(chunk)
        self.bytes += int(chunk.frame.estimated_size())


def write_table(frames: Sequence[pl.DataFrame]) -> list[StateFile]:
    """All rows in as few files as their types and `FILE_BYTES_MAX` allow."""
    return list(write_chunks(Chunk(number, frame) for number, frame in enumerate(frames)))


def read_row_groups(data: Data, row_groups: Sequence[int] | None = None) -> list[pl.DataFrame]:
    """The rows of these row groups (None: all), a frame for each chunk that they belong to.

    Of `data` the footer and these row groups are read. Raises InternalError if it is not a file of `write_chunks` or
    `write_table`.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        metadata = file.metadata.metadata or {}
        absent = json.loads(metadata.get(_ABSENT, b"[]"))
        wide = json.loads(metadata.get(_INT128, b"[]"))
        wanted = range(file.num_row_groups) if row_groups is None else row_groups
        described = _described(file)
        # files of earlier versions have one row group for each chunk
        runs = [[number] for number in wanted] if described is None else described.runs(wanted)
        return [_frame(file.read_row_groups(run), wide, absent[run[0]] if absent else ()) for run in runs]
    except (pa.ArrowException, ValueError, OSError) as error:
        raise InternalError(f"state that cannot be read: {error}") from error


def footer_bytes(end: bytes) -> int:
    """The size of a file's footer, out of at least the last 8 bytes of the file."""
    return int.from_bytes(end[-_LENGTH_BYTES:-4], "little") + _LENGTH_BYTES


def row_groups_of(data: Data) -> RowGroups | None:
    """The row groups of a file, of which `data` has at least the footer; None: an earlier version wrote it, without
    ranges and checksums.

    Raises InternalError for a footer that is corrupt.
    """
    try:
        described = _described(pq.ParquetFile(pa.BufferReader(data)))
        if described is not None:
            _verify(bytes(data[-footer_bytes(bytes(data[-_LENGTH_BYTES:])) :]))
    except (pa.ArrowException, ValueError, OSError) as error:
        raise InternalError(f"a footer that cannot be read: {error}") from error
    return described


def damaged_row_group(data: bytes) -> str | None:
    """The first row group whose bytes are not those written, for errors; None: no one, or the file does not tell."""
    try:
        described = row_groups_of(data)
    except InternalError:
        return "its footer"
    if described is None:
        return None
    found = checksums([data[group.offset : group.offset + group.bytes] for group in described.groups])
    for number, (group, actual) in enumerate(zip(described.groups, found, strict=True)):
        if actual != group.checksum:
            return f"row group {number}, {group.describe()}"
    return None


def plain_schema(columns: Mapping[str, str]) -> pa.Schema:
    """The Arrow schema for a state's columns (name -> polars type as text), with types that other engines have: 128-bit
    integers as decimal(38, 0), unsigned integers as wider signed ones, no large and no view types."""
    return pa.schema([(name, _plain_type(dtype_of(text))) for name, text in columns.items()])


def plain_batches(
    data: Data, schema: pa.Schema, row_groups: Sequence[int] | None = None, *, rows_max: int = PLAIN_ROWS_MAX
) -> Iterator[pa.RecordBatch]:
    """The rows of these row groups (None: all) as batches of `schema`; a column that the file lacks is NULL.

    Raises InternalError if `data` is not a state file.
    """
    try:
        file = pq.ParquetFile(pa.BufferReader(data))
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


def _described(file: pq.ParquetFile) -> RowGroups | None:
    text = (file.metadata.metadata or {}).get(_ROW_GROUPS)
    return None if text is None else ROW_GROUPS.validate_json(text)


def _file(schema: pl.Schema, chunks: Sequence[Chunk], order: KeyOrder | None) -> StateFile:
    wide = int128_columns(schema)
    absent = [[name for name in schema if name not in chunk.frame.schema] for chunk in chunks]
    lacking_by_group = [
        lacking for chunk, lacking in zip(chunks, absent, strict=True) for _ in cuts(chunk.frame.height)
    ]
    metadata = {_INT128: json.dumps(wide)} | ({_ABSENT: json.dumps(lacking_by_group)} if any(absent) else {})
    arrow = _table(chunks[0].frame.clear(), schema, absent[0]).schema
    arrow = arrow.with_metadata({key: value.encode() for key, value in metadata.items()})
    out = io.BytesIO()
    groups: list[RowGroup] = []
    places: dict[int, range] = {}
    with pq.ParquetWriter(
        out, arrow, compression="zstd", compression_level=1, use_dictionary=False, write_statistics=False
    ) as writer:
        for number, (chunk, lacking) in enumerate(zip(chunks, absent, strict=True)):
            rows = None if order is None else _in_order(chunk, order)
            frame = chunk.frame if rows is None else rows.frame
            pieces = (_table(piece, schema, lacking).cast(arrow) for piece in frame.iter_slices(_CONVERTED_ROWS_MAX))
            written = _written(number, pieces, rows, writer, out)
            places[chunk.id] = range(len(groups), len(groups) + len(written))
            groups += written
        described = RowGroups(None if order is None else order.max_parallelism, tuple(groups))
        writer.add_key_value_metadata({_ROW_GROUPS: ROW_GROUPS.dump_json(described), _FOOTER: _NO_CHECKSUM.encode()})
    _seal(out)
    return StateFile(
        out.getvalue(),
        places,
        tuple(group.rows for group in groups),
        {name: str(dtype) for name, dtype in schema.items()},
    )


def _in_order(chunk: Chunk, order: KeyOrder) -> SortedRows:
    return chunk.sorted if chunk.sorted is not None and chunk.sorted.order == order else order.sort(chunk.frame)


def _written(
    chunk: int, pieces: Iterable[pa.Table], rows: SortedRows | None, writer: pq.ParquetWriter, out: io.BytesIO
) -> list[RowGroup]:
    """Writes a chunk as row groups."""
    spans, offsets = list[tuple[int, int]](), [out.tell()]
    for table in pieces:
        done = sum(spans[-1]) if spans else 0
        for begin, count in cuts(table.num_rows):
            writer.write_table(table.slice(begin, count), row_group_size=count)
            spans.append((done + begin, count))
            offsets.append(out.tell())
    with out.getbuffer() as data:
        verified = checksums([bytes(data[begin:end]) for begin, end in pairwise(offsets)])
    return [
        RowGroup(
            chunk=chunk,
            rows=count,
            offset=offset,
            bytes=end - offset,
            checksum=found,
            first=None if rows is None else rows.place(begin),
            last=None if rows is None else rows.place(begin + count - 1),
        )
        for (begin, count), (offset, end), found in zip(spans, pairwise(offsets), verified, strict=True)
    ]


def _seal(out: io.BytesIO) -> None:
    """Writes the checksum of the footer into it, in place of its zeros."""
    with out.getbuffer() as written:
        size = footer_bytes(bytes(written[-_LENGTH_BYTES:]))
        footer = bytes(written[-size:])
        digits = _checksum_place(footer)
        begin = len(written) - size + digits.start
        written[begin : begin + len(_NO_CHECKSUM)] = checksum(footer).encode()


def _verify(footer: bytes) -> None:
    """Raises ValueError for a footer with another checksum than the one in it."""
    digits = _checksum_place(footer)
    zeroed = footer[: digits.start] + _NO_CHECKSUM.encode() + footer[digits.stop :]
    if checksum(zeroed).encode() != footer[digits]:
        raise ValueError("its checksum is not the one written")


def _checksum_place(footer: bytes) -> slice:
    """Where a footer has its checksum. Raises ValueError if it has none."""
    begin = footer.index(b"xxh64:", footer.rindex(_FOOTER))
    return slice(begin, begin + len(_NO_CHECKSUM))


def _table(frame: pl.DataFrame, schema: pl.Schema, lacking: Sequence[str]) -> pa.Table:
    missing = [pl.lit(None, dtype=schema[name]).alias(name) for name in lacking]
    whole = without_int128(frame.with_columns(missing).select(schema.names()))
    return whole.to_arrow(compat_level=pl.CompatLevel.oldest())


def _frame(table: pa.Table, wide: Sequence[str], lacking: Sequence[str]) -> pl.DataFrame:
    frame = pl.from_arrow(table)
    assert isinstance(frame, pl.DataFrame), "tables become frames"
    return with_int128(frame.drop(lacking), (name for name in wide if name not in lacking))


# ---- types as text ---------------------------------------------------------------------------------------------------
# Parses polars types from their text, as manifests hold them: `Int64`, `Decimal(precision=38, scale=2)`,
# `List(String)`.
#
#     dtype_of("Datetime(time_unit='us', time_zone='UTC')")  -> pl.Datetime("us", "UTC")
#
# The inverse of `str(dtype)` for every type that state has. The text is parsed, never evaluated.

_PLAIN: Mapping[str, pl.DataType] = {
    str(dtype()): dtype()
    for dtype in (
        pl.Binary, pl.Boolean, pl.Date, pl.Float32, pl.Float64, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.Int128,
        pl.Null, pl.String, pl.Time, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64,
    )
}  # fmt: skip


def dtype_of(text: str) -> pl.DataType:
    """The type. Raises ExternalError for a text that names no known type (written by a newer version)."""
    try:
        return _dtype(ast.parse(text, mode="eval").body)
    except (SyntaxError, ValueError, KeyError, TypeError) as error:
        raise ExternalError(
            f"state has a column of type {text!r}, which this version of headrace does not know",
            remedy="read it with the version that wrote it",
        ) from error


def _dtype(node: ast.expr) -> pl.DataType:
    match node:
        case ast.Name(id=name):
            return _PLAIN[name]
        case ast.Call(func=ast.Name(id="List"), args=[inner]):
            return pl.List(_dtype(inner))
        case ast.Call(func=ast.Name(id="Struct"), args=[ast.Dict(keys=names, values=types)]):
            return pl.Struct({_text(name): _dtype(inner) for name, inner in zip(names, types, strict=True)})
        case ast.Call(func=ast.Name(id="Datetime"), keywords=words):
            given = _words(words)
            zone = given.get("time_zone")
            return pl.Datetime(_unit(given["time_unit"]), None if zone is None else str(zone))
        case ast.Call(func=ast.Name(id="Duration"), keywords=words):
            return pl.Duration(_unit(_words(words)["time_unit"]))
        case ast.Call(func=ast.Name(id="Decimal"), keywords=words):
            given = _words(words)
            return pl.Decimal(int(str(given["precision"])), int(str(given["scale"])))
        case _:
            raise ValueError(ast.dump(node))


def _text(node: ast.expr | None) -> str:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    raise ValueError("a field has a name")


def _unit(value: object) -> Literal["ms", "us", "ns"]:
    found: dict[object, Literal["ms", "us", "ns"]] = {"ms": "ms", "us": "us", "ns": "ns"}
    return found[value]


def _words(words: list[ast.keyword]) -> dict[str, object]:
    return {word.arg: word.value.value for word in words if word.arg and isinstance(word.value, ast.Constant)}
