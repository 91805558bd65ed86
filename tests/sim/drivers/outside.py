"""What lies outside of the drivers: sources whose rows arrive over time, and a sink that remembers how far each share
is published and shuts out every publisher of a share but the newest.

Rows of a partition are its numbers 0, 1, 2, ..; a range (partition, first, behind the last) stands for all between.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.core.errors import ExternalError
from sim.drivers.auditor import Auditor
from sim.external.outside import Range
from sim.world import World

Share = tuple[int, int]
"""Epoch, subtask."""


class Partitions:
    """Partitions with a stop (None: none), and how many rows each has by now."""

    def __init__(self, world: World, stops: Sequence[int | None]) -> None:
        self._world = world
        self.stops = tuple(stops)
        self._row_ms = [world.between(100, 2_000) for _ in stops]

    def ends(self) -> list[int]:
        """How far each goes now. In calm times all rows of a partition with a stop are there."""
        now_ms = self._world.now_ms
        grown = [now_ms // row_ms for row_ms in self._row_ms]
        return [
            end if stop is None else (stop if self._world.calm else min(end, stop))
            for end, stop in zip(grown, self.stops, strict=True)
        ]


class Sink:
    """Published rows."""

    def __init__(self, auditor: Auditor) -> None:
        self._auditor = auditor
        self._published: dict[Share, int] = {}
        self._newest: dict[Share, int] = {}

    def open(self, share: Share) -> tuple[int, int]:
        """A publisher's number, and how many of the share's rows are visible."""
        self._newest[share] = self._newest.get(share, 0) + 1
        return self._newest[share], self._published.get(share, 0)

    def write(self, share: Share, number: int, rows: Sequence[Range]) -> None:
        """Makes rows visible. Raises ExternalError where a newer publisher of the share was opened."""
        if self._newest[share] != number:
            raise ExternalError("another publisher of the share was opened", retry=True)
        self._published[share] = self._published.get(share, 0) + count(rows)
        self._auditor.visible(share[0], rows)


def count(rows: Sequence[Range]) -> int:
    """How many rows these are."""
    return sum(behind - first for _, first, behind in rows)


def behind(rows: Sequence[Range], skip: int) -> list[Range]:
    """The rows without the first `skip`."""
    left: list[Range] = []
    for partition, first, end in rows:
        begin = first + min(skip, end - first)
        skip -= begin - first
        if begin < end:
            left.append((partition, begin, end))
    return left
