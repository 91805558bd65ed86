"""Checks rows before they are staged: rows that could not be published are rejected while nothing is decided.

The format and the sink provide the checks (`connect.row_check`). A replay therefore fails on the same rows as a live
job, before any output is visible.
"""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.connect.row_check import Encode, RowCheck
from headrace.connect.sink import SinkContext
from headrace.core.signals import Signal
from headrace.operators.chain import Receiver
from headrace.plan.physical import SinkSpec
from headrace.worker.task.sink_task import open_encoder


class CheckedSink:
    """Checks rows and passes them to a sink that stages them: a Receiver."""

    def __init__(self, checks: Sequence[RowCheck], sink: Receiver) -> None:
        self._checks = checks
        self._sink = sink

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Passes rows on. Raises DataError for a row that could not be written."""
        for check in self._checks:
            check.require(batch)
        self._sink.on_batch(batch)

    def on_signal(self, signal: Signal) -> None:
        """Passes it on."""
        self._sink.on_signal(signal)


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
