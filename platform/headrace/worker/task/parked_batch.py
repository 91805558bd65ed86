"""A polled batch whose schemas the decoder does not know yet. It is offered to the decoder again, and meanwhile nothing
of it has happened: a barrier has the positions before it. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connect.format import UnknownIds
from headrace.connect.source import SplitId
from headrace.worker.task.read_ahead import Reading

RETRY_FIRST_MS = 10
RETRY_MAX_MS = 1_000
"""Time between two offers: it doubles from the first to the greatest."""


@dataclass(frozen=True, slots=True)
class ParkedBatch:
    """A batch that waits.

    on         what is waited for, as users see it
    since_ms   when it was polled (epoch ms)
    due_ms     when it is offered again (monotonic ms); delay_ms: the time between this offer and the one before
    """

    reading: Reading
    on: str
    since_ms: int
    due_ms: int
    delay_ms: int

    @property
    def splits(self) -> frozenset[SplitId]:
        """The splits that have rows in it."""
        batch = self.reading.polled.batch
        assert batch is not None, "a batch without rows is not decoded"
        return frozenset(run.split for run in batch.runs)


def parked(
    reading: Reading, unknown: UnknownIds, before: ParkedBatch | None, *, now_ms: int, monotonic_ms: int
) -> ParkedBatch:
    """Parks a batch, or parks it again. before: the batch as it was offered; None: it has just been polled."""
    delay_ms = RETRY_FIRST_MS if before is None else min(2 * before.delay_ms, RETRY_MAX_MS)
    since_ms = now_ms if before is None else before.since_ms
    return ParkedBatch(reading, unknown.on, since_ms, monotonic_ms + delay_ms, delay_ms)
