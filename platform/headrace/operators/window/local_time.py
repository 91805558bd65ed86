"""Windows of the local calendar: days of 23, 24 and 25 hours, and parts of them.

A local day begins when the zone's clocks show midnight plus the offset. If the clocks show that time twice, the day
begins at the first occurrence; if they skip it, the day begins at the moment of the skip. A day that the zone skipped
is empty (Samoa, 2011-12-30). Here a slot is a span of local time, not a process: slots of whole days are counted from
1970-01-01 local; slots that divide a day are measured in elapsed time from the day's begin, and are truncated at its
end.

The zone's rules are those compiled into polars, not the host's: the same polars yields the same windows on every host.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from headrace.core.signals import TIME_MIN
from headrace.operators.window.assigner import Span, Times

_DAY_MS = 86_400_000
_DAYS_KEPT = 4096
"""Most day begins in the cache."""


def zone_problem(timezone: str) -> str | None:
    """The reason why polars cannot use a time zone, or None."""
    try:
        pl.Series([0], dtype=pl.Int64).cast(pl.Datetime("ms", "UTC")).dt.convert_time_zone(timezone)
    except (PolarsError, ValueError):
        return f"{timezone!r} is not a time zone: write an IANA name such as Europe/Berlin"
    return None


@dataclass(slots=True)
class LocalDays:
    """The days of a time zone, numbered from 1970-01-01; each begins `offset` ms after local midnight."""

    timezone: str
    offset: int
    _begins: dict[int, int] = field(default_factory=dict)

    def begin(self, day: int) -> int:
        """The time at which a day begins, in epoch ms; cached."""
        begin = self._begins.get(day)
        if begin is None:
            if len(self._begins) >= _DAYS_KEPT:
                self._begins.clear()
            begin = self._begins[day] = self._find_begin(day * _DAY_MS + self.offset)
        return begin

    def days(self, times: Times) -> Times:
        """The day of each time."""
        if not times.size:
            return times
        # a day by the wall clock may be off by one near a change of the clocks, or by a skipped day: its neighbours are
        # candidates
        near = np.unique((self._wall(times) - self.offset) // _DAY_MS)
        days = np.unique(np.concatenate([near + shift for shift in (-1, 0, 1, 2)]))
        begins = np.array([self.begin(day) for day in days.tolist()], dtype=np.int64)
        # begins are ascending; of equal begins (an empty day) the last one is the day that is not empty
        return days[np.searchsorted(begins, times, side="right") - 1]

    def day(self, moment: int) -> int:
        """The day of a time."""
        return int(self.days(np.array([moment], dtype=np.int64))[0])

    def _wall(self, times: Times) -> Times:
        """The reading of the zone's clocks, as ms since 1970 on those clocks."""
        local = pl.Series(times).cast(pl.Datetime("ms", "UTC")).dt.convert_time_zone(self.timezone)
        return local.dt.replace_time_zone(None).cast(pl.Int64).to_numpy()

    def _find_begin(self, wall: int) -> int:
        shown = pl.Series([wall], dtype=pl.Int64).cast(pl.Datetime("ms"))
        exact = shown.dt.replace_time_zone(self.timezone, ambiguous="earliest", non_existent="null")
        found = exact.dt.convert_time_zone("UTC").cast(pl.Int64)[0]
        if found is not None:
            return int(found)
        # clocks skip this reading: the day begins at the skip, the first time at which they show more
        before, after = wall - 2 * _DAY_MS, wall + 2 * _DAY_MS
        while after - before > 1:
            middle = (before + after) // 2
            if int(self._wall(np.array([middle], dtype=np.int64))[0]) >= wall:
                after = middle
            else:
                before = middle
        return after


@dataclass(slots=True)
class Slots:
    """Divides time into consecutive slots of `span` ms: groups of whole local days, or parts of a local day."""

    local: LocalDays
    span: int

    def starts(self, times: Times) -> Times:
        """The start of each time's slot."""
        days = self.local.days(times)
        if self.span >= _DAY_MS:
            days = days // self._group * self._group
        numbers, inverse = np.unique(days, return_inverse=True)
        begins = np.array([self.local.begin(day) for day in numbers.tolist()], dtype=np.int64)[inverse]
        return begins if self.span >= _DAY_MS else begins + (times - begins) // self.span * self.span

    def start(self, moment: int) -> int:
        """The start of a time's slot."""
        return int(self.starts(np.array([moment], dtype=np.int64))[0])

    def end(self, start: int) -> int:
        """The end of the slot that starts at `start`."""
        day = self.local.day(start)
        if self.span >= _DAY_MS:
            return self.local.begin(day // self._group * self._group + self._group)
        return min(start + self.span, self._next_begin(day))

    def _next_begin(self, day: int) -> int:
        return self.local.begin(day + 1)

    @property
    def _group(self) -> int:
        return self.span // _DAY_MS


@dataclass(frozen=True, slots=True)
class LocalTumbling:
    """Tumbling windows: each slot is one window and one pane."""

    slots: Slots

    def panes(self, times: Times) -> Times:
        """The slot of each time."""
        return self.slots.starts(times)

    def pane_end(self, pane: int) -> int:
        """The slot's end."""
        return self.slots.end(pane)

    def first(self, pane: int, after: int = TIME_MIN) -> Span:
        """The one window."""
        return pane, self.slots.end(pane)

    def last(self, pane: int) -> Span:
        """The same one window."""
        return pane, self.slots.end(pane)

    def following(self, window: Span) -> Span:
        """The next slot."""
        return window[1], self.slots.end(window[1])


@dataclass(frozen=True, slots=True)
class LocalSliding:
    """A window is `count` consecutive slots; a pane is a slot."""

    slots: Slots
    count: int

    def panes(self, times: Times) -> Times:
        """The slot of each time."""
        return self.slots.starts(times)

    def pane_end(self, pane: int) -> int:
        """The slot's end."""
        return self.slots.end(pane)

    def first(self, pane: int, after: int = TIME_MIN) -> Span:
        """The window that ends with this slot, or the first one that ends after `after`."""
        start = pane
        for _ in range(self.count - 1):
            start = self.slots.start(start - 1)
        window = start, self.slots.end(pane)
        while window[1] <= after:
            window = self.following(window)
        return window

    def last(self, pane: int) -> Span:
        """The window that starts with this slot."""
        end = pane
        for _ in range(self.count):
            end = self.slots.end(end)
        return pane, end

    def following(self, window: Span) -> Span:
        """The window one slot later."""
        return self.slots.end(window[0]), self.slots.end(window[1])


@dataclass(frozen=True, slots=True)
class LocalCumulate:
    """Cumulate windows: a slot is the full window. Its steps are measured in elapsed time from the slot's start; the
    last one is truncated at the slot's end."""

    slots: Slots
    every: int

    def panes(self, times: Times) -> Times:
        """The step of each time."""
        starts = self.slots.starts(times)
        return starts + (times - starts) // self.every * self.every

    def pane_end(self, pane: int) -> int:
        """The step's end, or the slot's if that is sooner."""
        return min(pane + self.every, self.slots.end(self.slots.start(pane)))

    def first(self, pane: int, after: int = TIME_MIN) -> Span:
        """The window that ends with this step, or the first one that ends after `after`."""
        start, full = self.last(pane)
        end = pane + self.every
        return start, min(end + max(0, (after - end) // self.every + 1) * self.every, full)

    def last(self, pane: int) -> Span:
        """The full window."""
        start = self.slots.start(pane)
        return start, self.slots.end(start)

    def following(self, window: Span) -> Span:
        """The window one step longer, at most the full one; after that, the first one of the next slot."""
        start, end = window
        full = self.slots.end(start)
        if end < full:
            return start, min(end + self.every, full)
        return end, min(end + self.every, self.slots.end(end))
