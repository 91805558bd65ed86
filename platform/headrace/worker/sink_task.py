"""The end of a chain: rows are encoded and handed to the sink's writer; at a barrier everything must be durable."""

from __future__ import annotations

from collections import Counter
from typing import assert_never

import polars as pl

from headrace.connect.format import Encoder
from headrace.connect.sink import SinkBatch, Writer
from headrace.core.batch import OP, TS
from headrace.core.signals import Barrier, EndOfInput, Signal, Watermark
from headrace.plan.physical import SinkSpec
from headrace.worker.control import SinkAcks


class SinkTask:
    """One subtask of a sink: a Receiver."""

    def __init__(
        self,
        spec: SinkSpec,
        subtask: int,
        *,
        writer: Writer,
        encoder: Encoder | None,
        acks: SinkAcks,
        counters: Counter[str],
    ) -> None:
        self._spec = spec
        self._subtask = subtask
        self._writer = writer
        self._encoder = encoder
        self._acks = acks
        self._visible = list(spec.schema.names)
        self._encoded = list(spec.encoded.names)
        self._epoch = 0
        self.counters = counters

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Encodes and writes; blocks while the writer's buffer is full."""
        messages = None if self._encoder is None else self._encoder.encode(batch.select(self._encoded))
        hidden = [TS, OP] if OP in batch.columns else [TS]
        self._writer.write(SinkBatch(batch.select(*self._visible, *hidden), messages))
        self.counters["rows_in"] += batch.height
        self.counters["rows_out"] += batch.height

    def on_signal(self, signal: Signal) -> None:
        """At a barrier and at the end: flush, then tell."""
        match signal:
            case Watermark():
                pass
            case Barrier(epoch):
                self._epoch = epoch
                self._acks.flushed(self._spec.node, self._subtask, epoch, self._writer.flush(epoch))
            case EndOfInput():
                self._acks.ended(self._spec.node, self._subtask, self._writer.flush(self._epoch + 1))
            case _:
                assert_never(signal)
