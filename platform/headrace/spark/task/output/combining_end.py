"""The sending end of an edge to a step with a combiner: rows become partial aggregates before the shuffle.

    rows ──held until COMBINED_ROWS──> combiner ──> partials, by key ──> outlets
                                           └──> rows that it leaves ──> the edge's plain end

The first batch decides whether combining pays: if keys hardly repeat, partials are as large as their rows, and from
then on rows are sent unchanged.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Protocol

import polars as pl

from headrace.core.batch import concat_batches
from headrace.core.signals import Signal
from headrace.exchange.edge.partition import Partitioner
from headrace.exchange.edge.rows import frames_of
from headrace.exchange.output import EdgeOutput
from headrace.operators.aggregation.combining import Combiner, Partials, split_partials
from headrace.plan.partitioning import Global, Hash
from headrace.plan.physical import PhysicalPlan, StepSpec, TaskEdge

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
    """A Receiver. `plain`: the end that sends rows unchanged; `counters`: those of the step."""

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
