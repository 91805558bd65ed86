"""Checks rows before they are staged: rows that could not be published leave by the sink's `on_error` while nothing is
decided.

The format and the sink provide the checks (`connect.row_check`). A replay therefore refuses the same rows as a live
job, before any output is visible.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.connect.row_check import Encode, Refused, RowCheck, first_of
from headrace.connect.sink import SinkContext
from headrace.core.batch import OP
from headrace.core.signals import Signal
from headrace.operators.chain import Receiver
from headrace.plan.physical import SinkSpec
from headrace.worker.task.refused_rows import RefusedRows
from headrace.worker.task.sink_task import open_encoder


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


def open_checks(spec: SinkSpec, context: SinkContext) -> tuple[RowCheck, ...]:
    """Returns the checks of a sink; none if it can write any row."""
    form = None if spec.format is None else spec.format.config.open_check(spec.encoded, spec.node)
    sink = spec.config.open_check(context, _encode(spec))
    return tuple(check for check in (form, sink) if check is not None)


def _encode(spec: SinkSpec) -> Encode | None:
    encoder = open_encoder(spec)
    if encoder is None:
        return None
    names = list(spec.encoded.names)
    return lambda rows: encoder.encode(rows.select(names))
