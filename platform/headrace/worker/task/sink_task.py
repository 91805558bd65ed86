"""The end of a chain: encodes rows and passes them to the sink's writer; at a barrier all output must be durable.

EndOfInput makes nothing durable, because a last barrier follows it.
"""

from __future__ import annotations

from collections import Counter
from typing import assert_never

import polars as pl

from headrace.connect.format import Encoder
from headrace.connect.sink import SinkBatch, Writer
from headrace.core.batch import OP, TS
from headrace.core.errors import ExternalError
from headrace.core.signals import Barrier, EndOfInput, Signal, Watermark
from headrace.exchange.stopwatch import Stopwatch
from headrace.exchange.traffic import NodeBytes, payload_bytes
from headrace.plan.physical import SinkSpec
from headrace.worker.slot.lease import Lease
from headrace.worker.state.snapshots import SubtaskSnapshots


class SinkTask:
    """One subtask of a sink: a Receiver."""

    def __init__(
        self,
        spec: SinkSpec,
        *,
        writer: Writer,
        encoder: Encoder | None,
        snapshots: SubtaskSnapshots,
        counters: Counter[str],
        lease: Lease | None = None,
        traffic: NodeBytes | None = None,
    ) -> None:
        self._writer = writer
        self._encoder = encoder
        self._snapshots = snapshots
        self._lease = lease
        self._traffic = NodeBytes() if traffic is None else traffic
        self._visible = list(spec.schema.names)
        self._encoded = list(spec.encoded.names)
        self.counters = counters
        self.writing = Stopwatch()
        """Time inside of the writer's `write`. Other threads may read it."""
        self.flushing = Stopwatch()
        """Time inside of the writer's `flush`. Other threads may read it."""

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Encodes and writes a batch; blocks while the writer's buffer is full.

        Raises ExternalError when the slot's lease has expired.
        """
        self._check_lease()
        messages = None if self._encoder is None else self._encoder.encode(batch.select(self._encoded))
        hidden = [TS, OP] if OP in batch.columns else [TS]
        rows = batch.select(*self._visible, *hidden)
        with self.writing.running():
            self._writer.write(SinkBatch(rows, messages))
        self._traffic.bytes_out += int(rows.estimated_size()) if messages is None else payload_bytes(messages)
        self.counters["rows_in"] += batch.height
        self.counters["rows_out"] += batch.height

    def on_signal(self, signal: Signal) -> None:
        """At a barrier: flushes the writer and adds its committables to the epoch's snapshot."""
        match signal:
            case Barrier(epoch):
                self._check_lease()
                with self.flushing.running():
                    committables = self._writer.flush(epoch)
                self._snapshots.add_committables(committables)
            case Watermark() | EndOfInput():
                pass
            case _:
                assert_never(signal)

    def _check_lease(self) -> None:
        """Raises ExternalError when the lease has expired: the slot was frozen or cut off, and may have been replaced.

        Checked before each write, because a frozen process may resume here, before the thread that watches the lease.
        """
        if self._lease is not None and self._lease.expired():
            raise ExternalError("this slot has not heard of its worker for longer than the lease", retry=True)


def open_encoder(spec: SinkSpec) -> Encoder | None:
    """Opens the encoder of a sink's messages; None if the sink takes rows."""
    if spec.config.takes != "messages" or spec.format is None:
        return None
    return spec.format.config.open_encoder(spec.encoded)
