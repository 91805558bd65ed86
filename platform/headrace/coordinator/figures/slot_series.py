"""The figures of one slot over the last seconds, and the rates that follow from them. Pure.

Figures count since the attempt began, so that a rate is the difference of two reports over the difference of their
times, both by the clock of the slot. The time of starting is in no rate: a slot counts from when its subtasks run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.rpc.figures import NodeFigures, SlotFigures, TimeFigures

WINDOW_MS = 10_000
"""The time that a recent rate covers; less at the beginning of an attempt."""
SAMPLES_MAX = 64
"""Most reports that a series keeps, whatever their times are."""

Counters = Mapping[str, Mapping[str, int]]
StateKey = tuple[str, str]
"""(node, state)."""
PartitionKey = tuple[str, str, int]
"""(source, topic, partition)."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One report. at_ms: since the slot's subtasks run; counters: node -> counter -> total of the attempt.

    times, nodes, positions   by task, by node and by partition, as of the report
    """

    at_ms: int
    counters: Counters = field(default_factory=dict)
    times: Mapping[str, TimeFigures] = field(default_factory=dict)
    nodes: Mapping[str, NodeFigures] = field(default_factory=dict)
    positions: Mapping[PartitionKey, int] = field(default_factory=dict)

    def count(self, node: str, counter: str) -> int:
        """A counter of a node; 0 if the node has not counted yet."""
        return self.counters.get(node, {}).get(counter, 0)


@dataclass(frozen=True, slots=True)
class Rate:
    """Rows a second. recent: over the last `WINDOW_MS`; attempt: since the subtasks run."""

    recent: float = 0.0
    attempt: float = 0.0

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.recent + other.recent, self.attempt + other.attempt)


@dataclass(frozen=True, slots=True)
class RecentTime:
    """How a subtask has spent the last `WINDOW_MS`. busy, idle, backpressured: shares of that time, 0 to 1."""

    busy: float = 0.0
    idle: float = 0.0
    backpressured: float = 0.0
    busy_ms: int = 0
    batches: int = 0


@dataclass(frozen=True, slots=True)
class RecentNode:
    """The time of a node in the last `WINDOW_MS`, as in `NodeFigures`; 0 where it has none."""

    own_ms: int = 0
    write_ms: int = 0
    flush_ms: int = 0


@dataclass(frozen=True, slots=True)
class NodeTotals:
    """One node in one slot, since the attempt began. Bytes are None where rows stay inside of a chain."""

    rows_in: int
    rows_out: int
    late: int
    bad: int
    bytes_in: int | None
    bytes_out: int | None
    rate_in: Rate
    rate_out: Rate


class SlotSeries:
    """The reports of one slot in one attempt."""

    def __init__(self) -> None:
        self._samples: deque[Sample] = deque([Sample(0)])
        self.figures: SlotFigures | None = None
        """The newest figures; None: none yet."""
        self._bytes: dict[str, NodeFigures] = {}

    def take(self, figures: SlotFigures, counters: Counters) -> None:
        """Adds a report. A report that is not newer than the last one replaces it."""
        if figures.at_ms <= self._samples[-1].at_ms and len(self._samples) > 1:
            self._samples.pop()
        nodes = {each.node: each for each in figures.nodes}
        times = {each.task: each for each in figures.times}
        positions = {
            (source.source, each.topic, each.partition): each.position
            for source in figures.sources
            for each in source.partitions
        }
        self._samples.append(Sample(figures.at_ms, counters, times, nodes, positions))
        self.figures = figures
        self._bytes = nodes
        # the newest of those that are older than the window stays: the rate covers all of the window
        while len(self._samples) > 2 and self._samples[1].at_ms <= figures.at_ms - WINDOW_MS:
            self._samples.popleft()
        while len(self._samples) > SAMPLES_MAX:
            del self._samples[1]

    @property
    def running_ms(self) -> int:
        """How long the slot's subtasks had run at the newest report."""
        return self._samples[-1].at_ms

    @property
    def counters(self) -> Counters:
        """The counters of the newest report with figures."""
        return self._samples[-1].counters

    def rate(self, node: str, counter: str) -> Rate:
        """How fast a counter of a node grows."""
        first, last = self._samples[0], self._samples[-1]
        grown, past_ms = last.count(node, counter) - first.count(node, counter), last.at_ms - first.at_ms
        return Rate(_per_second(grown, past_ms), _per_second(last.count(node, counter), last.at_ms))

    @property
    def window_ms(self) -> int:
        """The time that recent figures cover; 0 before the second report."""
        return self._samples[-1].at_ms - self._samples[0].at_ms

    def recent_time(self, task: str) -> RecentTime | None:
        """How the slot's subtask of a task has spent the last seconds; None: it has none, or has not reported."""
        last, before = self._samples[-1].times.get(task), self._samples[0].times.get(task)
        if last is None or self.window_ms <= 0:
            return None
        busy = last.busy_ms - (0 if before is None else before.busy_ms)
        idle = last.idle_ms - (0 if before is None else before.idle_ms)
        backpressured = last.backpressured_ms - (0 if before is None else before.backpressured_ms)
        whole = max(busy + idle + backpressured, 1)
        batches = last.batches - (0 if before is None else before.batches)
        return RecentTime(busy / whole, idle / whole, backpressured / whole, busy, batches)

    def recent_node(self, node: str) -> RecentNode:
        """The time of a node in the last seconds."""
        last, before = self._samples[-1].nodes.get(node), self._samples[0].nodes.get(node)
        if last is None:
            return RecentNode()
        earlier = NodeFigures(node=node) if before is None else before
        return RecentNode(
            max(0, last.own_ms - earlier.own_ms),
            max(0, (last.write_ms or 0) - (earlier.write_ms or 0)),
            max(0, (last.flush_ms or 0) - (earlier.flush_ms or 0)),
        )

    def recent_rows(self, node: str, counter: str) -> int:
        """By how much a counter of a node has grown in the last seconds."""
        return self._samples[-1].count(node, counter) - self._samples[0].count(node, counter)

    def partition_rate(self, key: PartitionKey) -> float | None:
        """Messages a second that were read of a partition; None: not known yet."""
        samples = [each for each in self._samples if key in each.positions]
        if len(samples) < 2:
            return None
        first, last = samples[0], samples[-1]
        return _per_second(last.positions[key] - first.positions[key], last.at_ms - first.at_ms)

    def totals(self, node: str) -> NodeTotals:
        """A node of this slot."""
        last, sent = self._samples[-1], self._bytes.get(node)
        return NodeTotals(
            rows_in=last.count(node, "rows_in"),
            rows_out=last.count(node, "rows_out"),
            late=last.count(node, "late"),
            bad=last.count(node, "bad"),
            bytes_in=None if sent is None else sent.bytes_in,
            bytes_out=None if sent is None else sent.bytes_out,
            rate_in=self.rate(node, "rows_in"),
            rate_out=self.rate(node, "rows_out"),
        )


def _per_second(rows: int, past_ms: int) -> float:
    return rows * 1_000 / past_ms if past_ms > 0 else 0.0
