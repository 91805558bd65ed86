"""The chain: operators fused into one call path, shared by every engine.

A chain is a tree of links. Each link holds one operator and passes the rows that it emits to the receivers of that
output: further links, an exchange, a sink. Signals take the same path as batches, after them:

    receiver.on_batch(frame) ──> operator ──emit──> receivers of the main output
                                    └──emit_side(late)──> receivers of `late`
    receiver.on_signal(Watermark) ──> operator emits completed results ──> every output (a lower one, if the operator
                                                                           returns one)
    receiver.on_signal(Barrier)   ──> operator's snapshot to `states`  ──> every output

When a barrier's call to the head of a chain returns, every operator of the chain has passed its state to `states`.

A chain begins with one receiver for each input of its first operator. Signals enter by the first one.

A chain is used by one thread. It knows nothing of threads, channels or connectors.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, assert_never

import polars as pl

from headrace.core.batch import TS, WM
from headrace.core.late_buckets import BUCKETS_MAX, GROWTH
from headrace.core.reporting import reporting
from headrace.core.signals import TIME_MIN, Barrier, EndOfInput, Signal, Watermark
from headrace.operators.operator import LATE, Collector, MultiInputOperator, Operator, Windowed
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
    """One operator of a chain with the receivers of its outputs. It is the `Receiver` of its only input, and the
    `Collector` of the operator's output.

    outputs   name of the output -> its receivers; MAIN: the main output, other names: side outputs
    counters  the node's counters: `rows_in`, `rows_out`, and those of the operator (`late`, `bad`, ..)
    states    receives the operator's snapshots, under the name `node`; None: barriers are only passed on
    """

    def __init__(
        self,
        operator: Operator | MultiInputOperator,
        outputs: Mapping[str, Sequence[Receiver]],
        counters: Counter[str],
        *,
        node: str = "",
        states: StateReceiver | None = None,
    ) -> None:
        self._operator = operator
        self._on_batch = _unnumbered if isinstance(operator, MultiInputOperator) else operator.on_batch
        self._node = node
        self._states = states
        self._main = tuple(outputs.get(MAIN, ()))
        self._sides = {name: tuple(receivers) for name, receivers in outputs.items() if name != MAIN}
        self._every = (*self._main, *(receiver for side in self._sides.values() for receiver in side))
        self._passed_on = TIME_MIN
        self.counters = counters
        self.late = LatenessHistogram()
        """How late the rows of the side output `late` were."""

    @property
    def windowed(self) -> Windowed | None:
        """Its operator, if that has windows."""
        return self._operator if isinstance(self._operator, Windowed) else None

    def inputs(self, count: int) -> tuple[Receiver, ...]:
        """The receivers of the operator's `count` inputs, by number. Signals go to the first one only."""
        operator = self._operator
        if isinstance(operator, MultiInputOperator):
            return tuple(_Input(self, operator, number) for number in range(count))
        assert count == 1, f"the operator of {self._node} has one input, not {count}"
        return (self,)

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Runs an operator with one input on the rows."""
        self.counters["rows_in"] += batch.height
        self._on_batch(batch, self)

    def on_signal(self, signal: Signal) -> None:
        """Passes the signal to the operator, then to all receivers."""
        match signal:
            case Watermark(ts):
                self._on_watermark(ts)
            case Barrier(epoch):
                if self._states is not None and (states := self._operator.snapshot()):
                    self._states.add_states(self._node, epoch, states)
                self._pass_on(signal)
            case EndOfInput():
                # the operator stays open: barriers still follow, and the last checkpoint contains its state
                self._pass_on(signal)
            case _:
                assert_never(signal)

    def _on_watermark(self, ts: int) -> None:
        held = self._operator.on_watermark(ts, self)
        # downstream watermarks must grow, and an operator may return a lower watermark than before
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
        """Passes rows of a side output on. Without a receiver they are dropped; the operator has counted them."""
        if batch.height:
            if output == LATE:
                with reporting("lateness of late rows"):
                    self.late.add(batch)
            for receiver in self._sides.get(output, ()):
                receiver.on_batch(batch)

    def count(self, counter: str, rows: int) -> None:
        """Adds to one of the node's counters."""
        self.counters[counter] += rows


def _unnumbered(_batch: pl.DataFrame, _out: Collector) -> None:
    raise AssertionError("a batch for an operator with several inputs has the number of one")


@dataclass(frozen=True, slots=True)
class _Input:
    """The receiver of one input of a link whose operator has several."""

    link: Link
    operator: MultiInputOperator
    number: int

    def on_batch(self, batch: pl.DataFrame) -> None:
        self.link.counters["rows_in"] += batch.height
        self.operator.on_input(self.number, batch, self.link)

    def on_signal(self, signal: Signal) -> None:
        self.link.on_signal(signal)


class Fan:
    """Passes every batch and signal to several receivers: the head of a chain that begins with a source, which has no
    operator."""

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


# ---- lateness --------------------------------------------------------------------------------------------------------
# How late the late rows of a node are: a bounded histogram. Pure; results do not depend on it.
#
# The lateness of a row is the watermark of its partition, less its event time; `core.late_buckets` has the buckets.


class LatenessHistogram:
    """The histogram of one node in one subtask. One thread adds, any thread may read."""

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}

    def add(self, late: pl.DataFrame) -> None:
        """Adds late rows. Rows without their own watermark (`lateness: operator`) are not counted."""
        if WM not in late.columns or not late.height:
            return
        lateness = (late.get_column(WM) - late.get_column(TS)).clip(1).cast(pl.Float64)
        buckets = lateness.log(GROWTH).ceil().clip(0, BUCKETS_MAX - 1).cast(pl.Int64)
        for bucket, rows in buckets.value_counts().rows():
            self._counts[bucket] = self._counts.get(bucket, 0) + rows

    def buckets(self) -> tuple[tuple[int, int], ...]:
        """(bucket, rows) of every bucket with rows, ascending."""
        return tuple(sorted(dict(self._counts).items()))
