"""The chain: operators fused into one call path, shared by every engine.

A chain is a tree of links. Each link holds one operator and passes the rows that it emits to the receivers of that
output: further links, an exchange, a sink. Signals take the same path as batches, after them:

    receiver.on_batch(frame) ──> operator ──emit──> receivers of the main output
                                    └──emit_side(late)──> receivers of `late`
    receiver.on_signal(Watermark) ──> operator emits completed results ──> every output (later, if the operator asks)
    receiver.on_signal(Barrier)   ──> operator's snapshot to `states`  ──> every output

When a barrier's call to the head of a chain returns, every operator of the chain has passed on its state.

A chain is used by one thread. It knows nothing of threads, channels or connectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Protocol, assert_never

import polars as pl

from headrace.core.signals import TIME_MIN, Barrier, EndOfInput, Signal, Watermark
from headrace.operators.operator import Operator
from headrace.state.snapshot import StateSnapshot

MAIN = ""
"""Name of the main output."""


class Receiver(Protocol):
    """Receives batches and signals, in order."""

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Receives a batch of at least one row."""
        ...

    def on_signal(self, signal: Signal) -> None:
        """Receives a signal. All batches and signals sent before it have been received."""
        ...


class StateReceiver(Protocol):
    """Receives the state of one subtask's operators at a barrier."""

    def add_states(self, node: str, epoch: int, states: Sequence[StateSnapshot]) -> None:
        """Receives one node's state as of the barrier of `epoch`."""
        ...


class Link:
    """One operator of a chain with the receivers of its outputs: a Receiver above, a Collector below.

    `states` receives the operator's snapshots, under the name `node`; without `states` barriers are only passed on.
    `counters` holds the node's counters: `rows_in`, `rows_out`, and what the operator counts (`late`, `bad`, ..).
    """

    def __init__(
        self,
        operator: Operator,
        outputs: Mapping[str, Sequence[Receiver]],
        counters: Counter[str],
        *,
        node: str = "",
        states: StateReceiver | None = None,
    ) -> None:
        self._operator = operator
        self._node = node
        self._states = states
        self._main = tuple(outputs.get(MAIN, ()))
        self._sides = {name: tuple(receivers) for name, receivers in outputs.items() if name != MAIN}
        self._every = (*self._main, *(receiver for side in self._sides.values() for receiver in side))
        self._passed_on = TIME_MIN
        self.counters = counters

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Runs the operator on the rows."""
        self.counters["rows_in"] += batch.height
        self._operator.on_batch(batch, self)

    def on_signal(self, signal: Signal) -> None:
        """Lets the operator handle the signal, then passes the signal on."""
        match signal:
            case Watermark(ts):
                self._on_watermark(ts)
            case Barrier(epoch):
                if self._states is not None and (states := self._operator.snapshot()):
                    self._states.add_states(self._node, epoch, states)
                self._pass_on(signal)
            case EndOfInput():
                # the operator stays open: barriers still follow, and its state belongs to the last checkpoint
                self._pass_on(signal)
            case _:
                assert_never(signal)

    def _on_watermark(self, ts: int) -> None:
        held = self._operator.on_watermark(ts, self)
        # downstream watermarks must grow: an operator may return an earlier hold than before
        if held > self._passed_on:
            self._passed_on = held
            self._pass_on(Watermark(held))

    def _pass_on(self, signal: Signal) -> None:
        for receiver in self._every:
            receiver.on_signal(signal)

    def emit(self, batch: pl.DataFrame) -> None:
        """Passes rows of the main output on."""
        if batch.height:
            self.counters["rows_out"] += batch.height
            for receiver in self._main:
                receiver.on_batch(batch)

    def emit_side(self, output: str, batch: pl.DataFrame) -> None:
        """Passes rows of a side output on. Without a reader they are dropped; the operator has counted them."""
        if batch.height:
            for receiver in self._sides.get(output, ()):
                receiver.on_batch(batch)

    def count(self, counter: str, rows: int) -> None:
        """Adds to one of the node's counters."""
        self.counters[counter] += rows


class Fan:
    """Passes everything to several receivers: the outputs of a chain whose head has no operator (a source)."""

    def __init__(self, receivers: Sequence[Receiver]) -> None:
        self._receivers = tuple(receivers)

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Passes rows to each receiver."""
        for receiver in self._receivers:
            receiver.on_batch(batch)

    def on_signal(self, signal: Signal) -> None:
        """Passes the signal to each receiver."""
        for receiver in self._receivers:
            receiver.on_signal(signal)
