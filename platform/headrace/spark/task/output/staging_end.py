"""The end of a chain in a Spark task: stages result rows as Parquet files, which are published once they are decided.

A staged file has the visible columns and then the hidden ones that a writer needs (`__ts`, `__op`). No report names the
files of failed attempts.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import assert_never

import polars as pl

from headrace.checkpoint.manifest import FilePart
from headrace.checkpoint.paths import staged_path
from headrace.checkpoint.stores.store import ObjectStore
from headrace.checkpoint.unique_names import unique_part
from headrace.core.batch import OP, TS, concat_batches
from headrace.core.errors import ExternalError
from headrace.core.signals import Barrier, EndOfInput, Signal, Watermark
from headrace.plan.physical import SinkSpec
from headrace.spark.task.report import StagedShare
from headrace.state.parquet import checksum

FILE_ROWS = 1_000_000
FILE_BYTES = 64 * 1024 * 1024
"""Approximate rows and bytes of a staged file, and of the rows that a sink holds in memory."""


class StagedSink:
    """Stages the rows of one sink in one task: a Receiver. `share` is complete after a barrier."""

    def __init__(
        self, spec: SinkSpec, store: ObjectStore, counters: Counter[str], *, attempt: int, epoch: int, subtask: int
    ) -> None:
        self._spec = spec
        self._store = store
        self._attempt, self._epoch, self._subtask = attempt, epoch, subtask
        self._visible = list(spec.schema.names)
        self._parts: list[pl.DataFrame] = []
        self._rows = self._bytes = 0
        self._files: list[FilePart] = []
        self.counters = counters
        self.share: StagedShare | None = None

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Collects rows; writes a file when they are many."""
        hidden = [TS, OP] if OP in batch.columns else [TS]
        rows = batch.select(*self._visible, *hidden)
        self._parts.append(rows)
        self._rows += rows.height
        self._bytes += int(rows.estimated_size())
        self.counters["rows_in"] += rows.height
        self.counters["rows_out"] += rows.height
        if self._rows >= FILE_ROWS or self._bytes >= FILE_BYTES:
            self._write()

    def on_signal(self, signal: Signal) -> None:
        """At the barrier, writes everything to storage."""
        match signal:
            case Barrier():
                self._write()
                rows = sum(part.rows for part in self._files)
                self.share = StagedShare(
                    sink=self._spec.node, subtask=self._subtask, rows=rows, files=tuple(self._files)
                )
            case Watermark() | EndOfInput():
                pass
            case _:
                assert_never(signal)

    def _write(self) -> None:
        if not self._rows:
            return
        rows = concat_batches(self._parts)
        data = encode_staged(rows)
        # the name has the attempt and a random part: tries of one task never overwrite each other's files
        path = staged_path(self._attempt, self._epoch, self._spec.node, self._subtask, len(self._files), unique_part())
        self._store.write(path, data)
        self._files.append(
            FilePart(path=path, row_groups=(0,), rows=rows.height, bytes=len(data), checksum=checksum(data))
        )
        self._parts, self._rows, self._bytes = [], 0, 0


def encode_staged(rows: pl.DataFrame) -> bytes:
    """Returns rows as a Parquet file."""
    stream = io.BytesIO()
    rows.write_parquet(stream, compression="zstd", compression_level=1, row_group_size=max(rows.height, 1))
    return stream.getvalue()


def read_staged(files: Sequence[FilePart], store: ObjectStore) -> Iterator[pl.DataFrame]:
    """Returns the rows of a share, file by file. Raises ExternalError if one is damaged or gone."""
    for part in files:
        data = store.read(part.path)
        if len(data) != part.bytes or checksum(data) != part.checksum:
            raise ExternalError(
                f"{store.url}/{part.path} is damaged", remedy="the rows have to be made again: start the command anew"
            )
        yield pl.read_parquet(io.BytesIO(data))
