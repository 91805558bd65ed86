"""Partitions that hold time back: others advance, and no row comes from them. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from headrace.rpc.figures import PartitionFigures

QUIET_MS = 10_000
"""A partition without a row for this long is quiet."""
AHEAD_MS = 1_000
"""How far another partition must be ahead in event time, so that a quiet one holds time back."""


@dataclass(frozen=True, slots=True)
class QuietPartition:
    """A partition that holds time back. behind_ms: how far behind the one that is furthest ahead; None: it has had no
    row."""

    topic: str
    partition: int
    quiet_ms: int
    behind_ms: int | None


def quiet_partitions(partitions: Iterable[PartitionFigures]) -> Sequence[QuietPartition]:
    """The partitions of one source that hold time back, the quietest first. Those that still have messages to read do
    not count, nor do idle ones, for which the watermark does not wait."""
    waited_for = [each for each in partitions if not each.idle]
    newest = max((each.watermark for each in waited_for if each.watermark is not None), default=None)
    if newest is None:
        return []
    found = [
        QuietPartition(
            each.topic,
            each.partition,
            each.quiet_ms,
            None if each.watermark is None else newest - each.watermark,
        )
        for each in waited_for
        if each.quiet_ms is not None
        and each.quiet_ms >= QUIET_MS
        and not each.lag
        and (each.watermark is None or newest - each.watermark >= AHEAD_MS)
    ]
    return sorted(found, key=lambda each: (-each.quiet_ms, each.topic, each.partition))
