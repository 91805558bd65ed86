"""Builds one archive file from rows of one partition."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from headrace.core.errors import InternalError
from headrace.formats.archive.names import ArchiveFile, writer_of
from headrace.formats.archive.schema import SCHEMA, VERSION, Footer

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
