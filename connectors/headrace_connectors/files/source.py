"""The files source: a partition reads its files one after the other, each from any line or row on."""

from __future__ import annotations

import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq

from headrace.connect.offsets_by_partition import stops_of
from headrace.connect.restored import gone
from headrace.connect.row_check import failing_rows
from headrace.connect.source import MessageBatch, Polled, RowBatch, Run, SourceContext, Split, SplitId
from headrace.core.errors import ExternalError, UserError
from headrace.core.files.unpacked_file import packing_of
from headrace.core.types import Schema
from headrace.formats.parquet import fit_to_schema
from headrace_connectors.files.config import FilesSourceSettings
from headrace_connectors.files.file_columns import remark_on_columns
from headrace_connectors.files.paths import note_files, place_of, position_of, source_files
from headrace_connectors.files.text_rows import TextRows

PARQUET = "parquet"


class FilesEnumerator:
    """Assigns the files to partitions, once. The splits list them, so that later files move none; a job that continues
    from another one's savepoint reads later files after those."""

    discovery_interval_ms: int | None = None

    def __init__(self, config: FilesSourceSettings, context: SourceContext) -> None:
        self._config, self._node = config, context.node
        self._splits: list[Split] | None = None
        self._before: Sequence[Split] = ()

    def restore(self, splits: Sequence[Split], *, foreign: bool) -> None:
        """Continues from these splits."""
        if foreign:
            self._before = splits
        else:
            self._splits = sorted(splits, key=lambda split: split.id)

    def discover(self) -> Sequence[Split]:
        """The partitions; one without a file is finished at once."""
        if self._splits is None:
            self._splits = self._deal()
        return self._splits

    def _deal(self) -> list[Split]:
        files: dict[SplitId, list[str]] = {
            SplitId(self._node, partition): [] for partition in range(self._config.partitions)
        }
        if missing := [split for split in self._before if split.id not in files]:
            raise gone(self._node, missing)
        files |= {split.id: list(split.detail) for split in self._before}
        dealt = {file for mine in files.values() for file in mine}
        fresh = [str(file) for file in source_files(self._config.path) if str(file) not in dealt]
        for number, file in enumerate(fresh, start=len(dealt)):
            files[SplitId(self._node, number % self._config.partitions)].append(file)
        stops = stops_of(self._config.stop, {split: position_of(len(mine), 0) for split, mine in files.items()})
        return [Split(split, 0, stops[split], tuple(mine)) for split, mine in files.items()]

    def close(self) -> None:
        """Does nothing: there are no resources."""


class FilesReader:
    """Reads one partition after the other, in blocks or parts of a row group."""

    def __init__(self, config: FilesSourceSettings, context: SourceContext) -> None:
        self._config, self._context = config, context
        self._open: dict[SplitId, _Partition] = {}
        self._paused: set[SplitId] = set()
        self._finished: set[SplitId] = set()

    def assign(self, splits: Sequence[Split]) -> None:
        """Adds partitions."""
        for split in splits:
            mine = tuple(Path(file) for file in split.detail)
            note_files(self._config.path, split.id.partition, mine)
            # finished files may be deleted, but not files that are still to be read
            if lost := [file for file in mine[place_of(split.start)[0] :] if not file.is_file()]:
                raise ExternalError(
                    f"{lost[0]} is gone, which {self._config.path} matched when the job began",
                    remedy="put it back: the job reads the files that there were at its start",
                )
            self._open[split.id] = _Partition(split, mine, self._context)
            if self._open[split.id].done:
                self._finish(split.id)

    def _finish(self, split: SplitId) -> None:
        self._finished.add(split)
        self._open.pop(split).close()

    def poll(self, timeout_ms: int) -> Polled:
        """Rows of one partition; waits only if every partition is paused or none is left."""
        finished, self._finished = frozenset(self._finished), set()
        ready = next((split for split in self._open if split not in self._paused), None)
        if ready is None:
            if not finished:
                time.sleep(timeout_ms / 1000)
            return Polled(finished=finished)
        partition = self._open[ready]
        batch = partition.read()
        positions = {ready: partition.position}
        remarks, partition.remarks = tuple(partition.remarks), []
        if partition.done:
            self._finish(ready)
            finished, self._finished = finished | self._finished, set()
        else:
            # the next poll starts with another partition
            self._open[ready] = self._open.pop(ready)
        return Polled(batch=batch, positions=positions, finished=finished, remarks=remarks)

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Stops reading these partitions."""
        self._paused.update(splits)

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Continues these partitions."""
        self._paused.difference_update(splits)

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Does nothing: positions are not published."""

    def close(self) -> None:
        """Closes files."""
        while self._open:
            self._open.popitem()[1].close()


class _Partition:
    """The files of a partition, at most one of them open."""

    def __init__(self, split: Split, files: Sequence[Path], context: SourceContext) -> None:
        self.position = split.start
        self._split = split
        self._files = files
        self._context = context
        self._current: TextRows | ParquetRows | None = None
        self.remarks: list[str] = []
        """Remarks for users on its files, until the next poll."""

    @property
    def done(self) -> bool:
        stop = position_of(len(self._files), 0) if self._split.stop is None else self._split.stop
        return self.position >= stop

    def read(self) -> MessageBatch | RowBatch | None:
        """The next rows; None if a file ended without any."""
        file, line = place_of(self.position)
        if self._current is None:
            self._current = self._open(self._files[file], line)
            if self._current.remark is not None:
                self.remarks.append(self._current.remark)
        rows_max = self._rows_max(file, self._current.next_line)
        if rows_max <= 0:  # only a header lay before the stop
            self.position = position_of(file, self._current.next_line)
            self.close()
            return None
        batch = self._current.read(self._split.id, file, rows_max)
        if batch is None:
            self.close()
            self.position = position_of(file + 1, 0)
        else:
            # a record that begins before the stop may end behind it
            self.position = self._not_past_stop(position_of(file, self._current.next_line))
        return batch if batch is not None and len(batch) else None

    def _not_past_stop(self, position: int) -> int:
        return position if self._split.stop is None else min(position, self._split.stop)

    def _rows_max(self, file: int, line: int) -> int:
        """The row limit of a read, which a `stop` inside of the file reduces."""
        stop_file, stop_line = (file + 1, 0) if self._split.stop is None else place_of(self._split.stop)
        rows_max = self._context.poll_rows_max
        return min(rows_max, stop_line - line) if stop_file == file else rows_max

    def _open(self, path: Path, line: int) -> TextRows | ParquetRows:
        try:
            if self._context.format == PARQUET:
                return ParquetRows(path, self._context.schema, skip=line)
            return TextRows(path, self._context, line)
        except OSError as cause:
            raise ExternalError(f"{path} cannot be read: {cause.strerror or cause}") from cause

    def close(self) -> None:
        if self._current is not None:
            self._current.close()
            self._current = None


# ---- rows of Parquet files -------------------------------------------------------------------------------------------


BATCH_ROWS = 16_384
_Frame = tuple[pl.DataFrame, Mapping[int, str]]
"""Rows, and the reasons of those that cannot be read."""


class ParquetRows:
    """An open Parquet file, read from row `skip` on."""

    def __init__(self, path: Path, schema: Schema, *, skip: int = 0) -> None:
        self._path, self._schema = path, schema
        try:
            self._file = pq.ParquetFile(path)
        except pa.ArrowInvalid as cause:
            packing = packing_of(path)
            if packing is not None:
                raise UserError(
                    f"{path} is packed with {packing}", remedy="unpack it: Parquet files are compressed inside"
                ) from cause
            raise UserError(f"{path} is no Parquet file: {cause}") from cause
        self.next_line = min(skip, self._file.metadata.num_rows)
        there = self._file.schema_arrow.names
        self.remark = remark_on_columns(path, there, schema)
        """What users should know of this file, or None."""
        self._columns = [name for name in schema.names if name in there]
        self._batches = self._read_from(skip)
        self._rest = pl.DataFrame()
        self._bad: Mapping[int, str] = {}

    def _read_from(self, skip: int) -> Iterator[_Frame]:
        """Frames in row order; skips row groups before `skip`."""
        groups: list[int] = []
        metadata = self._file.metadata
        for group in range(metadata.num_row_groups):
            rows = metadata.row_group(group).num_rows
            if groups or skip < rows:
                groups.append(group)
            else:
                skip -= rows
        if not groups:
            return
        for batch in self._file.iter_batches(batch_size=BATCH_ROWS, row_groups=groups, columns=self._columns):
            if skip >= batch.num_rows:
                skip -= batch.num_rows
                continue
            readable, bad = _readable(batch.slice(skip))
            skip = 0
            frame = pl.from_arrow(readable)
            assert isinstance(frame, pl.DataFrame)
            yield fit_to_schema(frame, self._schema, place=str(self._path)), bad

    def read(self, split: SplitId, file: int, rows_max: int) -> RowBatch | None:
        """The next rows; None at the end of the file."""
        if self._rest.is_empty():
            frame = next(self._batches, None)
            if frame is None:
                return None
            self._rest, self._bad = frame
        rows, self._rest = self._rest[:rows_max], self._rest[rows_max:]
        bad = {row: reason for row, reason in self._bad.items() if row < rows.height}
        self._bad = {row - rows.height: reason for row, reason in self._bad.items() if row >= rows.height}
        begin = position_of(file, self.next_line)
        self.next_line += rows.height
        positions = np.arange(begin, begin + rows.height, dtype=np.int64)
        return RowBatch(rows, positions, (Run(split, 0, rows.height),), bad=bad)

    def close(self) -> None:
        """Closes the file."""
        self._file.close()


def _readable(batch: pa.RecordBatch) -> tuple[pa.RecordBatch, Mapping[int, str]]:
    """The rows of a batch, with NULL for values that hold a text which is not UTF-8, and why these rows are bad.

    Arrow reads such texts as they are, and polars trusts them.
    """
    columns: list[pa.Array] = []
    bad: dict[int, str] = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        plain = column.dictionary_decode() if pa.types.is_dictionary(column.type) else column
        wrong = _wrong_texts(plain) if _holds_text(plain.type) else ()
        if wrong:
            plain = plain.take(pa.array([None if row in wrong else row for row in range(len(plain))], pa.int64()))
            bad = dict.fromkeys(wrong, f'field "{name}": a text is not UTF-8') | bad
        columns.append(plain)
    return pa.RecordBatch.from_arrays(columns, names=batch.schema.names), bad


def _wrong_texts(column: pa.Array) -> Collection[int]:
    """The rows of a column that hold a text which is not UTF-8."""

    def tried(begin: int, length: int) -> str | None:
        try:
            column.slice(begin, length).validate(full=True)
        except pa.ArrowInvalid as error:
            return str(error)
        return None

    return failing_rows(len(column), tried)


def _holds_text(dtype: pa.DataType) -> bool:
    if pa.types.is_string(dtype) or pa.types.is_large_string(dtype):
        return True
    return any(_holds_text(dtype.field(number).type) for number in range(dtype.num_fields))
