"""Assigns event times to windows.

Times are epoch milliseconds; a window is [start, end). Time is divided into **panes**: the longest spans whose times
all belong to the same windows. Rows are aggregated per pane, so that overlapping windows share the work; a pane is
identified by its start. Windows are ordered by end, then start; the windows of a pane are consecutive in that order.

In UTC windows are arithmetic, aligned to the epoch plus `offset_ms`. In another time zone they follow the local
calendar (`local_time`). Knows nothing of lateness.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from headrace.core.signals import TIME_MIN

Times = npt.NDArray[np.int64]
Span = tuple[int, int]
"""A window: start and end."""


class Assigner(Protocol):
    """Divides time into panes, and returns the windows that contain a pane."""

    def panes(self, times: Times) -> Times:
        """The start of the pane of each time (epoch ms)."""
        ...

    def pane_end(self, pane: int) -> int:
        """The end of a pane, which is the start of the next."""
        ...

    def first(self, pane: int, after: int = TIME_MIN) -> Span:
        """The first window that contains the pane and ends after `after`; there must be one."""
        ...

    def last(self, pane: int) -> Span:
        """The last window that contains the pane."""
        ...

    def following(self, window: Span) -> Span:
        """The window after this one."""
        ...

    def firsts(self, panes: Sequence[int], after: Sequence[int]) -> list[Span]:
        """`first` of each pane: one call for all panes of a batch."""
        ...

    def lasts(self, panes: Sequence[int]) -> list[Span]:
        """`last` of each pane."""
        ...

    def followings(self, windows: Sequence[Span]) -> list[Span]:
        """`following` of each window."""
        ...

    def is_even(self, pane: int) -> bool:
        """Whether no clocks change within the windows that contain the pane."""
        ...


def windows_of(assigner: Assigner, pane: int, after: int = TIME_MIN) -> Iterator[Span]:
    """The windows that contain the pane and end after `after`, in order. There may be many: size / slide."""
    window, last = assigner.first(pane, after), assigner.last(pane)
    while window != last:
        yield window
        window = assigner.following(window)
    yield last


@dataclass(frozen=True, slots=True)
class TumblingUtc:
    """Tumbling windows: each pane is one window."""

    size: int
    offset: int

    def panes(self, times: Times) -> Times:
        """The window's start; rounds down, also before 1970."""
        return (times - self.offset) // self.size * self.size + self.offset

    def pane_end(self, pane: int) -> int:
        """The window's end."""
        return pane + self.size

    def first(self, pane: int, after: int = TIME_MIN) -> Span:
        """The one window."""
        return pane, pane + self.size

    def last(self, pane: int) -> Span:
        """The same one window."""
        return pane, pane + self.size

    def following(self, window: Span) -> Span:
        """The window that begins where this one ends."""
        return window[1], window[1] + self.size

    def firsts(self, panes: Sequence[int], after: Sequence[int]) -> list[Span]:
        """The one window of each pane."""
        return self.lasts(panes)

    def lasts(self, panes: Sequence[int]) -> list[Span]:
        """The same windows."""
        size = self.size
        return [(pane, pane + size) for pane in panes]

    def followings(self, windows: Sequence[Span]) -> list[Span]:
        """The windows that begin where these end."""
        size = self.size
        return [(end, end + size) for _, end in windows]

    def is_even(self, pane: int) -> bool:
        """UTC has no changes."""
        return True


@dataclass(frozen=True, slots=True)
class SlidingUtc:
    """Sliding windows, one per period of `every` ms. Older windows end at one point within each period: a pane reaches
    from the period's start to this point, another one from there to the period's end. If `every` divides the size, the
    period is a single pane."""

    size: int
    every: int
    offset: int

    def panes(self, times: Times) -> Times:
        """The period's start, or the point in it where windows end."""
        period = (times - self.offset) // self.every * self.every + self.offset
        rest = self.size % self.every
        return np.where(times - period >= rest, period + rest, period) if rest else period

    def pane_end(self, pane: int) -> int:
        """The next boundary: the point where windows end, or the period's end."""
        rest = self.size % self.every
        place = (pane - self.offset) % self.every
        return pane + (rest if rest and place == 0 else self.every - place)

    def first(self, pane: int, after: int = TIME_MIN) -> Span:
        """The first window that ends at the pane's end or later, and after `after`."""
        return self.firsts((pane,), (after,))[0]

    def last(self, pane: int) -> Span:
        """The last window that starts at or before the pane."""
        return self.lasts((pane,))[0]

    def following(self, window: Span) -> Span:
        """The window one period later."""
        return window[0] + self.every, window[1] + self.every

    def firsts(self, panes: Sequence[int], after: Sequence[int]) -> list[Span]:
        """The first windows that end at the end of each pane or later, and after `after`."""
        size, every, rest, offset = self.size, self.every, self.size % self.every, self.offset
        spans: list[Span] = []
        for pane, bound in zip(panes, after, strict=True):
            place = (pane - offset) % every
            pane_end = pane + (rest if rest and place == 0 else every - place)
            end = pane - place + size
            # back from the last window by whole periods
            end -= (end - max(pane_end, bound + 1)) // every * every
            spans.append((end - size, end))
        return spans

    def lasts(self, panes: Sequence[int]) -> list[Span]:
        """The last windows that start at or before each pane."""
        size, every, offset = self.size, self.every, self.offset
        starts = [(pane - offset) // every * every + offset for pane in panes]
        return [(start, start + size) for start in starts]

    def followings(self, windows: Sequence[Span]) -> list[Span]:
        """The windows one period later."""
        every = self.every
        return [(start + every, end + every) for start, end in windows]

    def is_even(self, pane: int) -> bool:
        """UTC has no changes."""
        return True


@dataclass(frozen=True, slots=True)
class CumulateUtc:
    """Cumulate windows. A pane is one step; it belongs to the windows that end with it or later."""

    size: int
    every: int
    offset: int

    def panes(self, times: Times) -> Times:
        """The step's start (`every` divides the size)."""
        return (times - self.offset) // self.every * self.every + self.offset

    def pane_end(self, pane: int) -> int:
        """The step's end."""
        return pane + self.every

    def first(self, pane: int, after: int = TIME_MIN) -> Span:
        """The window that ends with this step, or the first one that ends after `after`."""
        return self.firsts((pane,), (after,))[0]

    def last(self, pane: int) -> Span:
        """The full window."""
        return self.lasts((pane,))[0]

    def following(self, window: Span) -> Span:
        """The window one step longer; after the full window, the first one of the next."""
        start, end = window
        return (start if end < start + self.size else end), end + self.every

    def firsts(self, panes: Sequence[int], after: Sequence[int]) -> list[Span]:
        """The windows that end with each step, or the first ones that end after `after`."""
        every = self.every
        return [
            (start, pane + every + max(0, (bound - pane) // every) * every)
            for (start, _), pane, bound in zip(self.lasts(panes), panes, after, strict=True)
        ]

    def lasts(self, panes: Sequence[int]) -> list[Span]:
        """The full windows."""
        size, offset = self.size, self.offset
        starts = [(pane - offset) // size * size + offset for pane in panes]
        return [(start, start + size) for start in starts]

    def followings(self, windows: Sequence[Span]) -> list[Span]:
        """The windows one step longer; after full windows, the first ones of the next."""
        size, every = self.size, self.every
        return [(start if end < start + size else end, end + every) for start, end in windows]

    def is_even(self, pane: int) -> bool:
        """UTC has no changes."""
        return True
