"""The chain: operators fused into one call path, shared by every engine.

A chain is a tree of links. Each link holds one operator and hands what the operator emits straight to the receivers
of that output: further links, an exchange, a sink. Signals take the same path as batches, after them:

    receiver.on_batch(frame) ──> operator ──emit──> receivers of the main output
                                    └──emit_side(late)──> receivers of `late`
    receiver.on_signal(Watermark) ──> operator emits what is ready ──> every output, held back if it says so
    receiver.on_signal(Barrier)   ──> operator's snapshot to `states`  ──> every output

So once a barrier's call to the head of a chain has returned, every operator of the chain has given its state.

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
    """Takes batches and signals, in order."""

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Takes a batch of at least one row."""
        ...

    def on_signal(self, signal: Signal) -> None:
        """Takes a signal; everything before it has been taken."""
        ...


class StateReceiver(Protocol):
    """Where the operators of one subtask put their state at a barrier."""

    def add_states(self, node: str, epoch: int, states: Sequence[StateSnapshot]) -> None:
        """Takes one node's state as of the barrier of `epoch`."""
        ...


class Link:
    """One operator of a chain with the receivers of its outputs: a Receiver above, a Collector below.

    `node` and `states`: where snapshots go, under which name; without `states` barriers only pass.
    `counters` holds what the node did: `rows_in`, `rows_out`, and what the operator counts (`late`, `bad`, ..).
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
        """Lets the operator act on time, then passes the signal on."""
        match signal:
            case Watermark(ts):
                self._on_watermark(ts)
            case Barrier(epoch):
                if self._states is not None and (states := self._operator.snapshot()):
                    self._states.add_states(self._node, epoch, states)
                self._pass_on(signal)
            case EndOfInput():
                # nothing is closed: barriers still pass, and what the operator holds belongs to the last checkpoint
                self._pass_on(signal)
            case _:
                assert_never(signal)

    def _on_watermark(self, ts: int) -> None:
        held = self._operator.on_watermark(ts, self)
        if held > self._passed_on:
            self._passed_on = held
            self._pass_on(Watermark(held))

    def _pass_on(self, signal: Signal) -> None:
        for receiver in self._every:
            receiver.on_signal(signal)

    def emit(self, batch: pl.DataFrame) -> None:
        """Hands rows of the main output down."""
        if batch.height:
            self.counters["rows_out"] += batch.height
            for receiver in self._main:
                receiver.on_batch(batch)

    def emit_side(self, output: str, batch: pl.DataFrame) -> None:
        """Hands rows of a side output down; nobody reads it: they end here, counted by the operator."""
        if batch.height:
            for receiver in self._sides.get(output, ()):
                receiver.on_batch(batch)

    def count(self, counter: str, rows: int) -> None:
        """Adds to one of the node's counters."""
        self.counters[counter] += rows


class Fan:
    """Hands everything to several receivers: the outputs of a chain's head that has no operator (a source)."""

    def __init__(self, receivers: Sequence[Receiver]) -> None:
        self._receivers = tuple(receivers)

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Hands rows to each receiver."""
        for receiver in self._receivers:
            receiver.on_batch(batch)

    def on_signal(self, signal: Signal) -> None:
        """Hands the signal to each receiver."""
        for receiver in self._receivers:
            receiver.on_signal(signal)
