"""Writes rows as archive files: one open per partition, put whole at a barrier or when it is large enough.

Delivery: rows that were put before a failure are put again by the next attempt, in files with other bounds. That
repeats offsets with the same content in other files. A reader reads every offset once, so it sees no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace.connect.source import SplitId
from headrace.core.errors import DataError, InternalError
from headrace.formats.archive.folder import ArchiveFolder
from headrace.formats.archive.names import ArchiveFile, writer_of
from headrace.formats.archive.ranges import continued
from headrace.formats.archive.schema import SCHEMA, VERSION, Footer, numbers
from headrace_connectors.archive.config import ArchiveSinkSettings

GROUP_ROWS_MAX = 32_768
GROUP_BYTES_MAX = 8 << 20
"""Size of a row group, exceeded by at most one batch; a reader holds one row group in memory."""


@dataclass(frozen=True, slots=True)
class Origin:
    """The source partition of a file's rows, and the job that writes the file."""

    topic: str
    partition: int
    job: str


@dataclass(frozen=True, slots=True)
class Built:
    """A complete file."""

    file: ArchiveFile
    footer: Footer
    data: pa.Buffer


class FileBuilder:
    """Builds one file in memory, from offset `first` on. Holds compressed row groups, and one that is still open."""

    def __init__(self, origin: Origin, first: int) -> None:
        self._origin = origin
        self._first = first
        self._next = first
        self._rows = 0
        self._times: tuple[int, int] | None = None
        self._waiting: list[pa.Table] = []
        self._waiting_rows = self._waiting_bytes = 0
        self._out = pa.BufferOutputStream()
        # readers select row groups by offset and time; minimum and maximum of payloads would be large and unused
        self._parquet = pq.ParquetWriter(
            self._out,
            SCHEMA,
            compression="zstd",
            use_dictionary=["key"],
            write_statistics=["offset", "timestamp"],
        )

    @property
    def next(self) -> int:
        """The offset after the last row; `first` without rows."""
        return self._next

    @property
    def rows(self) -> int:
        """Rows so far."""
        return self._rows

    @property
    def bytes(self) -> int:
        """Approximate size in memory."""
        return int(self._out.tell()) + self._waiting_bytes

    def add(self, rows: pa.Table) -> None:
        """Adds at least one row of `SCHEMA`, in offset order, after the rows added before."""
        first = rows["offset"][0].as_py()
        if first < self._next:
            raise InternalError(f"offset {first} of a partition came after offset {self._next - 1}")
        self._waiting.append(rows)
        self._waiting_rows += rows.num_rows
        self._waiting_bytes += rows.nbytes
        self._rows += rows.num_rows
        self._next = rows["offset"][-1].as_py() + 1
        stamps = pc.min_max(rows["timestamp"])
        low, high = stamps["min"].as_py(), stamps["max"].as_py()
        self._times = (low, high) if self._times is None else (min(self._times[0], low), max(self._times[1], high))
        if self._waiting_rows >= GROUP_ROWS_MAX or self._waiting_bytes >= GROUP_BYTES_MAX:
            self._write_group()

    def finish(self) -> Built:
        """Returns the file, which has at least one row. Nothing can be added afterwards."""
        assert self._times is not None, "a file without rows is not written"
        if self._waiting:
            self._write_group()
        origin = self._origin
        footer = Footer(
            VERSION,
            origin.topic,
            origin.partition,
            self._first,
            self._next,
            self._rows,
            *self._times,
            job=origin.job,
        )
        self._parquet.add_key_value_metadata(footer.metadata())
        self._parquet.close()
        return Built(ArchiveFile(self._first, self._next, writer_of(origin.job)), footer, self._out.getvalue())

    def _write_group(self) -> None:
        self._parquet.write_table(pa.concat_tables(self._waiting), row_group_size=2 * GROUP_ROWS_MAX)
        self._waiting.clear()
        self._waiting_rows = self._waiting_bytes = 0


class ArchiveWriter:
    """Writes the files of one subtask. `close` without a `flush` writes no file."""

    def __init__(self, config: ArchiveSinkSettings, context: SinkContext) -> None:
        self._config = config
        self._job = context.job
        self._node = context.node
        self._folder = ArchiveFolder(config.path)
        self._building: dict[SplitId, FileBuilder] = {}
        self._ends: dict[SplitId, int] = {}

    def write(self, batch: SinkBatch) -> None:
        """Adds rows; puts files that are full."""
        for split, rows in _by_partition(batch.rows):
            self._add(split, rows)
        while sum(builder.bytes for builder in self._building.values()) > self._config.max_bytes:
            self._put(max(self._building, key=lambda split: self._building[split].bytes))

    def _add(self, split: SplitId, rows: pa.Table) -> None:
        offsets = numbers(rows, "offset")
        first = int(offsets[0])
        expected = self._ends.get(split, 0)
        if first < expected or (offsets[1:] <= offsets[:-1]).any():
            raise DataError(
                f"sink {self._node!r}: rows of {split} are not in offset order: {first} came after {expected - 1}",
                remedy="an archive takes the rows of a partition as its source gives them: forward, from one source",
                node=self._node,
            )
        while rows.num_rows:
            builder = self._building.get(split) or self._begin(split, rows["offset"][0].as_py())
            room = self._config.max_rows - builder.rows
            builder.add(rows.slice(0, room))
            self._ends[split] = builder.next
            if builder.rows >= self._config.max_rows:
                self._put(split)
            rows = rows.slice(room)

    def _begin(self, split: SplitId, row: int) -> FileBuilder:
        first = self._ends.get(split)
        if first is None:
            # the first rows of this partition in this process: the job may have been restored
            first = continued(self._folder.files(*split), writer_of(self._job), row)
        builder = self._building[split] = FileBuilder(Origin(*split, self._job), first)
        return builder

    def _put(self, split: SplitId) -> None:
        built = self._building.pop(split).finish()
        self._folder.put(*split, built.file, built.data)

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Puts every open file."""
        for split in list(self._building):
            self._put(split)
        return ()

    def close(self) -> None:
        """Discards open files."""
        self._building.clear()


def _by_partition(rows: pl.DataFrame) -> Iterator[tuple[SplitId, pa.Table]]:
    """The rows of each partition, in order, in the archive's schema."""
    for (topic, partition), part in rows.partition_by(
        ["topic", "partition"], as_dict=True, maintain_order=True
    ).items():
        kept = part.select(
            pl.col("offset"),
            pl.col("timestamp").to_physical().floordiv(1000),
            pl.col("key"),
            pl.col("value"),
            pl.col("headers"),
        )
        yield SplitId(str(topic), int(partition)), _table(kept)


def _table(rows: pl.DataFrame) -> pa.Table:
    return pa.Table.from_arrays([_plain(rows[field.name].to_arrow(), field.type) for field in SCHEMA], schema=SCHEMA)


def _plain(column: pa.Array, kind: pa.DataType) -> pa.Array:
    return column if column.type == kind else column.cast(kind)
