"""The end of a chain in a Spark task: checks result rows, and stages them as Parquet files, which are published once
they are decided.

Rows that could not be published leave by the sink's `on_error` while nothing is decided. The format and the sink
provide the checks (`connect.row_check`). A replay therefore refuses the same rows as a live job, before any output is
visible.

A staged file has the visible columns and then the hidden ones that a writer needs (`__ts`, `__op`). No report names the
files of failed attempts.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import assert_never

import polars as pl

from headrace.checkpoint.manifest import FilePart
from headrace.checkpoint.paths import staged_path
from headrace.checkpoint.stores.store import ObjectStore
from headrace.checkpoint.unique_names import unique_part
from headrace.connect.format import PreparedFormats
from headrace.connect.row_check import Encode, Refused, RowCheck, first_of
from headrace.connect.sink import SinkContext
from headrace.core.batch import OP, TS, concat_batches
from headrace.core.errors import ExternalError
from headrace.core.signals import Barrier, EndOfInput, Signal, Watermark
from headrace.operators.chain import Receiver
from headrace.plan.physical import SinkSpec
from headrace.spark.task.order import StagedShare
from headrace.state.parquet import checksum
from headrace.state.place import StatePlace
from headrace.worker.task.refused_rows import RefusedRows
from headrace.worker.task.sink_task import open_encoder, open_format_check, open_key_encoder

FILE_ROWS = 1_000_000
FILE_BYTES = 64 * 1024 * 1024
"""Approximate rows and bytes of a staged file, and of the rows that a sink holds in memory."""


class StagedSink:
    """Stages the rows of one sink in one task: a Receiver. `share` is complete after a barrier.

    place   of the task's state: with each file the pages are released that were read to make its rows
    """

    def __init__(
        self,
        spec: SinkSpec,
        store: ObjectStore,
        counters: Counter[str],
        *,
        attempt: int,
        epoch: int,
        subtask: int,
        place: StatePlace,
    ) -> None:
        self._spec = spec
        self._store = store
        self._place = place
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
        self._place.release_pages()


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


class CheckedSink:
    """Checks rows and passes them to a sink that stages them: a Receiver."""

    def __init__(self, spec: SinkSpec, checks: Sequence[RowCheck], sink: Receiver, refused: RefusedRows) -> None:
        self._spec = spec
        self._checks = checks
        self._sink = sink
        self._refused = refused

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Passes rows on that can be written. Raises DataError for another one if the sink's `on_error` is `fail`."""
        found = first_of(check.refused(batch) for check in self._checks)
        if found and self._spec.implicit:
            batch = self._emptied(batch, found)
        elif found:
            self._refused.refuse(batch, found)
            batch = batch.filter(~pl.int_range(batch.height, eager=True).is_in(list(found)))
        if batch.height:
            self._sink.on_batch(batch)

    def _emptied(self, batch: pl.DataFrame, found: Refused) -> pl.DataFrame:
        """A dead letter that cannot be written has no content: its headers remain. It is staged as a delete, which is
        published without a value."""
        empty = pl.int_range(batch.height, eager=True).is_in(list(found))
        columns = [pl.when(empty).then(None).otherwise(pl.col(name)).alias(name) for name in self._spec.encoded.names]
        return batch.with_columns(*columns, empty.alias(OP))

    def on_signal(self, signal: Signal) -> None:
        """Passes it on."""
        self._sink.on_signal(signal)
        self._refused.on_signal(signal)


def open_checks(spec: SinkSpec, context: SinkContext, formats: PreparedFormats) -> tuple[RowCheck, ...]:
    """Returns the checks of a sink; none if it can write any row."""
    context = replace(context, encode_keys=open_key_encoder(spec, formats))
    checks = (open_format_check(spec, formats), spec.config.open_check(context, _encode(spec, formats)))
    return tuple(check for check in checks if check is not None)


def _encode(spec: SinkSpec, formats: PreparedFormats) -> Encode | None:
    encoder = open_encoder(spec, formats)
    if encoder is None:
        return None
    names = list(spec.encoded.names)
    return lambda rows: encoder.encode(rows.select(names))
