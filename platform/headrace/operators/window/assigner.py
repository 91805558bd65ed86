"""Which windows a moment of event time belongs to.

Times are epoch milliseconds; a window is [start, end). Time is cut into **panes**: the longest spans whose moments all
belong to the same windows. Rows are aggregated per pane, so that overlapping windows share the work; the pane's name
is its start. Windows of a pane are in order of end, then start.

In UTC windows are arithmetic, aligned to the epoch plus `offset_ms`. In another time zone they follow the local
calendar (`local_time`). Knows nothing of rows that are late.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[np.int64]
Span = tuple[int, int]
"""A window: start and end."""


class Assigner(Protocol):
    """Cuts time into panes and knows the windows of each."""

    def panes(self, times: Times) -> Times:
        """The pane of each moment."""
        ...

    def pane_end(self, pane: int) -> int:
        """The end of a pane, which is the start of the next."""
        ...

    def windows(self, pane: int) -> tuple[Span, ...]:
        """The windows that contain the pane, by end, then start; at least one."""
        ...


@dataclass(frozen=True, slots=True)
class TumblingUtc:
    """A pane is a window."""

    size: int
    offset: int

    def panes(self, times: Times) -> Times:
        """Rounds down, also before 1970."""
        return (times - self.offset) // self.size * self.size + self.offset

    def pane_end(self, pane: int) -> int:
        """The window's end."""
        return pane + self.size

    def windows(self, pane: int) -> tuple[Span, ...]:
        """The one window."""
        return ((pane, pane + self.size),)


@dataclass(frozen=True, slots=True)
class SlidingUtc:
    """Every period has a pane up to where older windows end and one after it (none where `every` divides the size)."""

    size: int
    every: int
    offset: int

    def panes(self, times: Times) -> Times:
        """The period's start, or the place in it where windows end."""
        period = (times - self.offset) // self.every * self.every + self.offset
        rest = self.size % self.every
        return np.where(times - period >= rest, period + rest, period) if rest else period

    def pane_end(self, pane: int) -> int:
        """The period's other edge."""
        rest = self.size % self.every
        place = (pane - self.offset) % self.every
        return pane + (rest if rest and place == 0 else self.every - place)

    def windows(self, pane: int) -> tuple[Span, ...]:
        """Those that start at or before the pane and end at its end or later."""
        latest = (pane - self.offset) // self.every * self.every + self.offset
        earliest_end = self.pane_end(pane)
        count = (latest + self.size - earliest_end) // self.every + 1
        starts = (latest - step * self.every for step in range(count - 1, -1, -1))
        return tuple((start, start + self.size) for start in starts)


@dataclass(frozen=True, slots=True)
class CumulateUtc:
    """A pane is one step; it belongs to the windows that end with it or later."""

    size: int
    every: int
    offset: int

    def panes(self, times: Times) -> Times:
        """The step's start (`every` divides the size)."""
        return (times - self.offset) // self.every * self.every + self.offset

    def pane_end(self, pane: int) -> int:
        """The step's end."""
        return pane + self.every

    def windows(self, pane: int) -> tuple[Span, ...]:
        """From the window that ends with this step to the full one."""
        start = (pane - self.offset) // self.size * self.size + self.offset
        return tuple((start, end) for end in range(pane + self.every, start + self.size + 1, self.every))
