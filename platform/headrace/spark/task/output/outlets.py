"""The sending end of an edge in a Spark task: collects the rows for one target into blobs of a worthwhile size.

Blobs are cut by their rows alone. The rows of a blob do not depend on how rows arrived: Spark may compute a partition
of a lost executor again after others have received the first one's blobs.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import polars as pl

from headrace.core.batch import concat_batches
from headrace.core.signals import TIME_MIN, Element, Signal, Watermark
from headrace.exchange.edge.partition import Partitioner, open_partitioner
from headrace.exchange.edge.rows import Rows, Split, frames_of
from headrace.exchange.output import EdgeOutput
from headrace.operators.aggregation.combining import Combiner, Partials, concat_partials, split_partials
from headrace.operators.chain import Receiver
from headrace.plan.partitioning import Forward, Global, Hash, Rebalance, Rescale
from headrace.plan.physical import PhysicalPlan, StepSpec, TaskEdge
from headrace.spark.levels.envelope import Envelope, Kind, encode_partials, encode_rows, encode_watermark
from headrace.spark.levels.levels import Levels

BLOB_ROWS = 65_536
BLOB_BYTES = 8 * 1024 * 1024


class Ready(Protocol):
    """Receives complete blobs."""

    def append(self, blob: Envelope, /) -> None:
        """Adds a blob."""
        ...


class BlobOutlet:
    """The rows from one sender of an edge to one target: an Outlet. Complete blobs go to `ready`."""

    def __init__(self, ready: Ready, *, edge: int, sender: int, level: int, partition: int) -> None:
        self._ready = ready
        self._edge = edge
        self._sender = sender
        self._level = level
        self._partition = partition
        self._parts: list[pl.DataFrame] = []
        self._partials: list[Partials] = []
        self._rows = 0
        self._bytes = 0
        self._sent = 0
        self._watermark = TIME_MIN

    def put(self, element: Element | Rows) -> None:
        """Collects rows, and notes the watermark; other signals have no meaning between Spark's stages."""
        match element:
            case Rows():
                self._add(element.gathered())
            case pl.DataFrame():
                self._add(element)
            case Watermark(ts):
                self._watermark = ts
            case _:
                pass

    def put_partials(self, partials: Partials) -> None:
        """Collects partial aggregates of the receiving step."""
        self._partials.append(partials)
        for part in partials.parts:
            self._grow(part)

    def _add(self, rows: pl.DataFrame) -> None:
        self._parts.append(rows)
        self._grow(rows)

    def _grow(self, rows: pl.DataFrame) -> None:
        self._rows += rows.height
        self._bytes += int(rows.estimated_size())
        if self._rows >= BLOB_ROWS or self._bytes >= BLOB_BYTES:
            self._cut()

    def _cut(self) -> None:
        if self._parts:
            self._send(Kind.ROWS, encode_rows(concat_batches(self._parts)))
        if self._partials:
            self._send(Kind.PARTIALS, encode_partials(concat_partials(self._partials)))
        self._parts, self._partials, self._rows, self._bytes = [], [], 0, 0

    def _send(self, kind: Kind, payload: bytes) -> None:
        self._ready.append(self._envelope(kind, payload))
        self._sent += 1

    def finish(self) -> None:
        """No row follows: sends the last blob and the trailer."""
        self._cut()
        self._ready.append(self._envelope(Kind.TRAILER, encode_watermark(self._watermark)))

    def _envelope(self, kind: Kind, payload: bytes) -> Envelope:
        return Envelope(kind, self._level, self._partition, payload, self._edge, self._sender, self._sent)

    @property
    def waited_ms(self) -> float:
        """Always 0: nothing waits here."""
        return 0.0


@dataclass(frozen=True, slots=True)
class _ToOne:
    """Sends all rows to one target, and signals to all: for edges that only balance load. The target of a row must not
    depend on how batches were cut.
    """

    targets: tuple[int, ...]
    target: int

    def split(self, batch: pl.DataFrame) -> Split:
        return ((self.target, Rows.all_of(batch)),)


@dataclass(frozen=True, slots=True)
class Outgoing:
    """ends: (node, output) -> the sending ends of the edges that leave a task there; outlets: all of them."""

    ends: Mapping[tuple[str, str], list[Receiver]]
    outlets: tuple[BlobOutlet, ...]


def outgoing(
    plan: PhysicalPlan,
    levels: Levels,
    task: str,
    sender: int,
    *,
    ready: Ready,
    counters: dict[str, Counter[str]],
) -> Outgoing:
    """Returns the sending ends of all edges that leave one partition of a task. `counters`: by node, also of the steps
    whose combiners run here.
    """
    ends: dict[tuple[str, str], list[Receiver]] = {}
    made: list[BlobOutlet] = []
    for index, edge in enumerate(plan.edges):
        if edge.from_task != task:
            continue
        to = levels.stations[edge.to_task]
        outlets = {
            target: BlobOutlet(ready, edge=index, sender=sender, level=to.level, partition=to.first + target)
            for target in range(to.width)
        }
        made += outlets.values()
        partitioner = _partitioner(plan, index, sender, levels)
        plain = EdgeOutput(partitioner, outlets, columns=edge.columns, order_columns=edge.order_columns)
        combining = combining_end(plan, edge, plain, partitioner=partitioner, outlets=outlets, counters=counters)
        ends.setdefault((edge.source, edge.output), []).append(combining or plain)
    return Outgoing(ends, tuple(made))


def _partitioner(plan: PhysicalPlan, index: int, sender: int, levels: Levels) -> Partitioner:
    edge = plan.edges[index]
    receivers = levels.stations[edge.to_task].width
    if isinstance(edge.partitioning, Forward | Rebalance | Rescale):
        return _ToOne(tuple(range(receivers)), sender % receivers)
    return _Everywhere(
        open_partitioner(
            edge.partitioning,
            subtask=sender,
            senders=levels.stations[edge.from_task].width,
            receivers=receivers,
            max_parallelism=plan.max_parallelism,
        ),
        tuple(range(receivers)),
    )


@dataclass(frozen=True, slots=True)
class _Everywhere:
    """Sends rows to the partitioner's targets, and signals to every target, because each waits for every sender's
    trailer.
    """

    partitioner: Partitioner
    targets: tuple[int, ...]

    def split(self, batch: pl.DataFrame) -> Split:
        return [(target, Rows.all_of(frame)) for target, frame in frames_of(self.partitioner.split(batch))]


# ---- combining -------------------------------------------------------------------------------------------------------


COMBINED_ROWS = 65_536
"""Rows that are combined at once: the more, the more often a key repeats."""
WORTH_BYTES = 0.5
"""Greatest size of partials, as a fraction of their rows' bytes, for which combining pays."""


class PartialsOutlet(Protocol):
    """The outlet of one target, for partials."""

    def put_partials(self, partials: Partials) -> None:
        """Queues them."""
        ...


class CombiningEnd:
    """The sending end of an edge to a step with a combiner: rows become partial aggregates before the shuffle.

        rows ──held until COMBINED_ROWS──> combiner ──> partials, by key ──> outlets
                                               └──> rows that it leaves ──> the edge's plain end

    The first batch decides whether combining pays: if keys hardly repeat, partials are as large as their rows, and from
    then on rows are sent unchanged. `plain`: the end that sends rows unchanged; `counters`: those of the step.
    """

    def __init__(
        self,
        combiner: Combiner,
        plain: EdgeOutput,
        *,
        partitioner: Partitioner,
        outlets: Mapping[int, PartialsOutlet],
        counters: Counter[str],
    ) -> None:
        self._combiner = combiner
        self._plain = plain
        self._partitioner = partitioner
        self._outlets = outlets
        self._counters = counters
        self._held: list[pl.DataFrame] = []
        self._rows = 0
        self._worth: bool | None = None

    def on_batch(self, batch: pl.DataFrame) -> None:
        """Collects rows."""
        if self._worth is False:
            self._plain.on_batch(batch)
            return
        self._held.append(batch)
        self._rows += batch.height
        if self._rows >= COMBINED_ROWS:
            self._combine()

    def on_signal(self, signal: Signal) -> None:
        """Sends the collected rows, then the signal."""
        self._combine()
        self._plain.on_signal(signal)

    def _combine(self) -> None:
        if not self._held:
            return
        rows = self._plain.shaped(concat_batches(self._held))
        self._held, self._rows = [], 0
        made = _Made()
        partials = self._combiner.combine(rows, made)
        if partials is not None and self._worth is None:
            self._worth = _bytes(*partials.parts) < WORTH_BYTES * _bytes(rows)
            if not self._worth:
                self._plain.on_batch(rows)
                return
        self._counters.update(made.counted)
        for batch in made.left:
            self._plain.on_batch(batch)
        if partials is not None:
            for target, own in split_partials(partials, lambda rows: frames_of(self._partitioner.split(rows))):
                self._outlets[target].put_partials(own)


def combining_end(
    plan: PhysicalPlan,
    edge: TaskEdge,
    plain: EdgeOutput,
    *,
    partitioner: Partitioner,
    outlets: Mapping[int, PartialsOutlet],
    counters: dict[str, Counter[str]],
) -> CombiningEnd | None:
    """Returns the end of an edge whose reader begins with a step that combines rows by exactly the edge's keys; None
    for other edges. `counters`: by node.
    """
    head = plan.task(edge.to_task).nodes[0]
    combiner = head.config.combiner() if isinstance(head, StepSpec) else None
    if combiner is None or combiner.keys != _keys(edge):
        return None
    counted = counters.setdefault(head.node, Counter())
    return CombiningEnd(combiner, plain, partitioner=partitioner, outlets=outlets, counters=counted)


def _keys(edge: TaskEdge) -> tuple[str, ...] | None:
    """Returns the columns by which an edge partitions rows; None: it partitions otherwise."""
    match edge.partitioning:
        case Hash(keys):
            return keys
        case Global():
            return ()
        case _:
            return None


class _Made:
    """A Collector for one batch."""

    def __init__(self) -> None:
        self.left: list[pl.DataFrame] = []
        self.counted: Counter[str] = Counter()

    def emit(self, batch: pl.DataFrame) -> None:
        """Collects rows that are sent unchanged."""
        self.left.append(batch)

    def emit_side(self, _output: str, _batch: pl.DataFrame) -> None:
        """Fails: the receiving step has the side outputs."""
        raise AssertionError("combiners have no side outputs")

    def count(self, counter: str, rows: int) -> None:
        """Adds to the step's counter."""
        self.counted[counter] += rows


def _bytes(*frames: pl.DataFrame) -> int:
    return sum(int(frame.estimated_size()) for frame in frames)
