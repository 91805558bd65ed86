"""The figures of one slot over the last seconds, and the rates that follow from them. Pure.

Figures count since the attempt began, so that a rate is the difference of two reports over the difference of their
times, both by the clock of the slot. The time of starting is in no rate: a slot counts from when its subtasks run.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.rpc.figures import NodeFigures, SlotFigures

WINDOW_MS = 10_000
"""The time that a recent rate covers; less at the beginning of an attempt."""
SAMPLES_MAX = 64
"""Most reports that a series keeps, whatever their times are."""

Counters = Mapping[str, Mapping[str, int]]


@dataclass(frozen=True, slots=True)
class Sample:
    """One report. at_ms: since the slot's subtasks run; counters: node -> counter -> total of the attempt."""

    at_ms: int
    counters: Counters = field(default_factory=dict)

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
        self._samples.append(Sample(figures.at_ms, counters))
        self.figures = figures
        self._bytes = {each.node: each for each in figures.nodes}
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
