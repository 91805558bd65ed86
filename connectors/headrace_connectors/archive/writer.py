"""Writes rows as archive files: one open per partition, put whole at a barrier or when it is large enough.

Delivery: rows that were put before a failure are put again by the next attempt, in files with other bounds. That
repeats offsets with the same content in other files. A reader reads every offset once, so it sees no difference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import polars as pl
import pyarrow as pa

from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace.connect.source import SplitId
from headrace.core.errors import DataError
from headrace.formats.archive.building import FileBuilder, Origin
from headrace.formats.archive.folder import ArchiveFolder
from headrace.formats.archive.names import writer_of
from headrace.formats.archive.ranges import continued
from headrace.formats.archive.schema import SCHEMA, numbers
from headrace_connectors.archive.config import ArchiveSinkSettings


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
