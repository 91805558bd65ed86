"""Reads one archive file from a position on, one row group at a time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.errors import UserError
from headrace.formats.archive.schema import Footer, footer_of, numbers


class FileReader:
    """Reads a file, and owns its `handle` from `ArchiveFolder.open`; `place` names the file in messages.

    Raises UserError, immediately or later, if the file is not an archive file or is corrupt.
    """

    def __init__(self, handle: Any, place: str, columns: Sequence[str]) -> None:
        self._handle = handle
        self._place = place
        self._columns = list(columns)
        try:
            self._parquet = pq.ParquetFile(handle)
            self.footer: Footer = footer_of(self._parquet.metadata.metadata, place)
        except pa.ArrowInvalid as cause:
            handle.close()
            raise self._broken(cause) from cause
        except UserError:
            handle.close()
            raise
        self._group = 0
        self._rows: pa.Table | None = None
        self._offsets = np.empty(0, dtype=np.int64)

    def read(self, position: int, rows_max: int) -> pa.Table | None:
        """At least one and at most `rows_max` rows from `position` on; None if no row follows.

        Positions must not decrease from call to call.
        """
        while self._rows is None or not len(self._offsets) or self._offsets[-1] < position:
            if not self._next_group(position):
                return None
        assert self._rows is not None
        begin = int(np.searchsorted(self._offsets, position))
        return self._rows.slice(begin, rows_max)

    def first_at(self, time_ms: int, position: int) -> int | None:
        """The first offset from `position` on whose record has a time of at least `time_ms`; None if there is none."""
        rows = self.read(position, 1 << 62)
        while rows is not None:
            late = np.flatnonzero(numbers(rows, "timestamp") >= time_ms)
            if len(late):
                return int(rows["offset"][int(late[0])].as_py())
            rows = self.read(int(rows["offset"][-1].as_py()) + 1, 1 << 62)
        return None

    def close(self) -> None:
        """Closes the file."""
        self._handle.close()

    def _next_group(self, position: int) -> bool:
        """Advances to the next row group that may have rows from `position` on."""
        about = self._parquet.metadata
        while self._group < about.num_row_groups:
            number = self._group
            self._group += 1
            statistics = about.row_group(number).column(0).statistics
            if statistics is not None and statistics.has_min_max and statistics.max < position:
                continue
            try:
                self._rows = self._parquet.read_row_group(number, self._columns)
            except (pa.ArrowInvalid, OSError) as cause:
                raise self._broken(cause) from cause
            self._offsets = numbers(self._rows, "offset")
            return True
        return False

    def _broken(self, cause: Exception) -> UserError:
        return UserError(
            f"{self._place} cannot be read: {str(cause).partition(chr(10))[0]}",
            remedy="remove it, and archive its offsets again if no other file has them",
        )
