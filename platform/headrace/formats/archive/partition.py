"""Reads one partition of an archive from a position on, across its files, as if they were one file. A file is read one
row group at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.core.errors import UserError
from headrace.formats.archive.folder import ArchiveFolder, ArchiveNotFoundError
from headrace.formats.archive.names import ArchiveFile
from headrace.formats.archive.ranges import chosen
from headrace.formats.archive.schema import Footer, footer_of, numbers


class PartitionReader:
    """Reads [position, stop) up to the archive's first hole or end; `stop` None: no end.

    columns   the requested columns of `schema.SCHEMA`; `offset` is always included
    """

    def __init__(
        self, folder: ArchiveFolder, place: tuple[str, int], position: int, stop: int | None, columns: Sequence[str]
    ) -> None:
        self._folder = folder
        self._topic, self._partition = place
        self.position = position
        """The next offset: every record before it was returned or does not exist."""
        self._stop = stop
        self._columns = list(dict.fromkeys(["offset", *columns]))
        self._plan: deque[ArchiveFile] = deque()
        self._open: tuple[ArchiveFile, FileReader] | None = None

    @property
    def stop(self) -> int | None:
        """The exclusive upper bound of offsets, or None."""
        return self._stop

    @property
    def finished(self) -> bool:
        """Whether the position has reached the stop."""
        return self._stop is not None and self.position >= self._stop

    def read(self, rows_max: int) -> pa.Table | None:
        """The next rows, at least one and at most `rows_max`; advances the position past them.

        None: the reader is finished, or no file accounts for the offset at its position now.
        """
        while not self.finished:
            opened = self._open or self._open_next()
            if opened is None:
                return None
            file, reader = opened
            rows = reader.read(self.position, rows_max)
            if rows is None:
                self._move(file.next)
                self.close()
                continue
            if self._stop is not None and rows["offset"][-1].as_py() >= self._stop:
                rows = rows.slice(0, int(np.searchsorted(numbers(rows, "offset"), self._stop)))
                self._move(self._stop)
                return rows if rows.num_rows else None
            self._move(rows["offset"][-1].as_py() + 1)
            return rows
        return None

    def close(self) -> None:
        """Closes the open file. Idempotent; reading may continue."""
        if self._open is not None:
            self._open[1].close()
            self._open = None

    def _move(self, position: int) -> None:
        self.position = position if self._stop is None else min(position, self._stop)
        # the stop may lie inside of the open file: nothing more is read from it
        if self.finished:
            self.close()

    def _open_next(self) -> tuple[ArchiveFile, FileReader] | None:
        for fresh in (False, True):
            if fresh:
                # other processes add and remove files meanwhile: list the folder again before reporting a hole
                files = self._folder.files(self._topic, self._partition)
                self._plan = deque(chosen(files, self.position, self._stop))
            if not self._plan or self._plan[0].first > self.position:
                continue
            file = self._plan.popleft()
            try:
                reader = open_file(self._folder, (self._topic, self._partition), file, self._columns)
            except ArchiveNotFoundError:
                if fresh:
                    raise
                continue
            self._open = (file, reader)
            return self._open
        return None


def open_file(folder: ArchiveFolder, place: tuple[str, int], file: ArchiveFile, columns: Sequence[str]) -> FileReader:
    """Opens a file of a partition (topic, number). Raises UserError if its footer contradicts its name."""
    reader = FileReader(folder.open(*place, file), folder.place(*place, file), columns)
    footer = reader.footer
    if (footer.topic, footer.partition, footer.first, footer.next) != (*place, file.first, file.next):
        reader.close()
        raise UserError(
            f"{folder.place(*place, file)} holds {footer.topic}[{footer.partition}] from {footer.first} to "
            f"{footer.next - 1}",
            remedy="move it back to the folder and name with which it was written",
        )
    return reader


def first_at(
    folder: ArchiveFolder, place: tuple[str, int], files: Sequence[ArchiveFile], bounds: tuple[int, int], time_ms: int
) -> int | None:
    """The first offset in [bounds[0], bounds[1]) of a partition, in these files, whose record has a time of at least
    `time_ms`.

    Reads the footers of the files in order: times need not grow with offsets, so a binary search is impossible.
    """
    position, stop = bounds
    for file in chosen(files, position, stop):
        reader = open_file(folder, place, file, ("offset", "timestamp"))
        try:
            if reader.footer.max_timestamp >= time_ms:
                found = reader.first_at(time_ms, max(position, file.first))
                if found is not None:
                    return found if found < stop else None
        finally:
            reader.close()
        position = max(position, file.next)
    return None


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
