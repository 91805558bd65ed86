"""Windows of the local calendar: days of 23, 24 and 25 hours, and parts of them by the wall clock.

A local day begins when the zone's clocks show midnight plus the offset. If the clocks show that time twice, the day
begins at the first occurrence; if they skip it, the day begins at the moment of the skip. A day that the zone skipped
is empty (Samoa, 2011-12-30). Parts of a day follow the same rule, as in Flink: a boundary is the first moment at which
the clocks show its reading or a later one. So windows of 12 hours meet at noon on every day, and on the day of 25
hours the one before noon has 13. A part whose readings are all skipped is empty, and is no window.

Windows shorter than the time by which clocks go back are the exception. By the wall clock each of them would be in two
pieces, with other windows in between. Where that time is a multiple of their step, they are measured in elapsed time
across the change, and the repeated readings have windows of their own.

A `Grid` divides time into slots (spans of local time, not processes). All slots are counted, empty ones too, so that a
window is a range of numbers. Within a day, numbers and times are converted by integer arithmetic. The zone's rules
are read for months at once, and are those compiled into polars, not the host's: the same polars yields the same windows
on every host.
"""

from __future__ import annotations

import bisect
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import polars as pl
from polars.exceptions import PolarsError

from headrace.core.signals import TIME_MIN
from headrace.operators.window.assigner import Span, Times

_DAY_MS = 86_400_000
_PERIODS_KEPT = 4096
"""Most day begins, and most periods, in a cache."""
_PERIODS_SCANNED = 64
"""A batch that spans at most this many periods looks at them one after the other."""
_BLOCK_MS = 128 * _DAY_MS
"""Changes of the clocks are looked up for so much time at once."""
_BLOCKS_KEPT = 512
"""Most blocks whose changes are cached: about 180 years."""
_SAMPLE_MS = 900_000
"""Distance of the times at which UTC offsets are looked up; clocks do not change twice within it."""
Change = tuple[int, int]
"""A time, and the zone's UTC offset from then on, both in ms."""
Slot = tuple[int, int]
"""A slot's place in a grid: the number of its period, and its number in the period."""


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
    _blocks: dict[int, list[Change]] = field(default_factory=dict)

    def begin(self, day: int) -> int:
        """The time at which a day begins, in epoch ms; cached."""
        begin = self._begins.get(day)
        if begin is None:
            if len(self._begins) >= _PERIODS_KEPT:
                self._begins.clear()
            begin = self._begins[day] = self._find_begin(day * _DAY_MS + self.offset)
        return begin

    def days(self, times: Times) -> Times:
        """The day of each time."""
        if not times.size:
            return times
        return self._days(times, self._wall(times))

    def day(self, moment: int) -> int:
        """The day of a time."""
        times = np.array([moment], dtype=np.int64)
        return int(self._days(times, times + self.changes(moment, moment + 1)[0][1])[0])

    def _days(self, times: Times, wall: Times) -> Times:
        # a day by the wall clock may be off by one near a change of the clocks, or by a skipped day: its neighbours are
        # candidates
        near = np.unique((wall - self.offset) // _DAY_MS)
        days = np.unique(np.concatenate([near + shift for shift in (-1, 0, 1, 2)]))
        begins = np.array([self.begin(day) for day in days.tolist()], dtype=np.int64)
        # begins are ascending; of equal begins (an empty day) the last one is the day that is not empty
        return days[np.searchsorted(begins, times, side="right") - 1]

    def changes(self, begin: int, end: int) -> list[Change]:
        """`begin` with its UTC offset, then each change of the clocks in (begin, end)."""
        known = [
            change
            for number in range(begin // _BLOCK_MS, (end - 1) // _BLOCK_MS + 1)
            for change in self._block(number)
            if change[0] < end
        ]
        first = max(at for at, (time, _) in enumerate(known) if time <= begin)
        found = [(begin, known[first][1])]
        for time, shift in known[first + 1 :]:
            if shift != found[-1][1]:  # the begin of a block need not be a change
                found.append((time, shift))
        return found

    def _block(self, number: int) -> list[Change]:
        """The changes in a block of time, and its begin; cached."""
        block = self._blocks.get(number)
        if block is None:
            if len(self._blocks) >= _BLOCKS_KEPT:
                self._blocks.clear()
            times = number * _BLOCK_MS + np.arange(0, _BLOCK_MS + 1, _SAMPLE_MS, dtype=np.int64)
            shifts = self._wall(times) - times
            block = self._blocks[number] = [(int(times[0]), int(shifts[0]))]
            for at in np.flatnonzero(np.diff(shifts)).tolist():
                block.append((self._change(int(times[at]), int(times[at + 1])), int(shifts[at + 1])))
        return block

    def _change(self, before: int, after: int) -> int:
        """The time in (before, after] at which the clocks change."""
        ends = np.array([before, after], dtype=np.int64)
        shift = int((self._wall(ends) - ends)[0])
        while after - before > 1:
            times = np.linspace(before, after, 32).astype(np.int64)
            still = int(((self._wall(times) - times) == shift).sum()) - 1
            before, after = int(times[still]), int(times[still + 1])
        return after

    def _wall(self, times: Times) -> Times:
        """The reading of the zone's clocks, as ms since 1970 on those clocks."""
        local = pl.Series(times).cast(pl.Datetime("ms", "UTC")).dt.convert_time_zone(self.timezone)
        return local.dt.replace_time_zone(None).cast(pl.Int64).to_numpy()

    def _find_begin(self, wall: int) -> int:
        """The first time at which clocks show `wall` or more."""
        changes = self.changes(wall - 2 * _DAY_MS, wall + 2 * _DAY_MS)
        ends = [time for time, _ in changes[1:]] + [wall + 2 * _DAY_MS]
        return next(
            max(time, wall - shift) for (time, shift), end in zip(changes, ends, strict=True) if end + shift > wall
        )


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Time from `begin` on in which clocks run evenly.

    reading   what they show at `begin`, in ms since the period's nominal begin
    shown     readings below this one were shown before `begin`, or skipped before it
    """

    begin: int
    reading: int
    shown: int


@dataclass(frozen=True, slots=True)
class _Period:
    """Consecutive local days whose slots are counted together: [begin, end), with `slots` slots of `step` ms.

    stretches   of time, where the clocks change in the period; none if they do not
    """

    begin: int
    end: int
    step: int
    slots: int
    stretches: tuple[_Stretch, ...] = ()

    def number(self, moment: int) -> int:
        """The number of the slot that a time in the period lies in; it is not empty."""
        if not self.stretches:
            return (moment - self.begin) // self.step
        part = next(part for part in reversed(self.stretches) if part.begin <= moment)
        return max(part.reading + moment - part.begin, part.shown - 1) // self.step

    def start(self, number: int) -> int:
        """The start of a slot; of the number `slots`: the period's end."""
        if number == self.slots:
            return self.end
        if not self.stretches:
            return min(self.begin + number * self.step, self.end)
        reading = number * self.step
        # the last stretch before which the reading was neither shown nor skipped
        part = next((part for part in reversed(self.stretches) if part.shown <= reading), self.stretches[0])
        return min(max(part.begin, part.begin + reading - part.reading), self.end)

    def starts(self, times: Times) -> Times:
        """The start of the slot of each time in the period."""
        if not self.stretches:
            return self.begin + (times - self.begin) // self.step * self.step
        place = np.searchsorted([part.begin for part in self.stretches], times, side="right") - 1
        begin, reading, shown = (
            np.array([getattr(part, name) for part in self.stretches], dtype=np.int64)[place]
            for name in ("begin", "reading", "shown")
        )
        numbers = np.maximum(reading + times - begin, shown - 1) // self.step
        distinct, which = np.unique(numbers, return_inverse=True)
        return np.array([self.start(number) for number in distinct.tolist()], dtype=np.int64)[which]


class Grid:
    """Divides local time into slots of `step` ms, for windows of `size` ms.

    days   of a period; slots are counted anew in each
    unit   windows are measured in elapsed time where clocks go back by more than `size`, a multiple of `unit` ms
    """

    def __init__(self, local: LocalDays, *, step: int, days: int, size: int, unit: int) -> None:
        self._local = local
        self._step = step
        self._days = days
        self._slots = days * _DAY_MS // step
        self._size = size
        self._unit = unit
        self._numbers: list[int] = []
        self._begins: list[int] = []
        self._periods: dict[int, _Period] = {}
        self._latest = (0, 0, 0)
        """Begin, end and number of the period that was asked for last."""

    def slot(self, moment: int) -> Slot:
        """The slot in which a time lies; of slots that start at the same time the last one, which is not empty."""
        number = self._number(moment)
        return number, self._period(number).number(moment)

    def start(self, slot: Slot) -> int:
        """The start of a slot (epoch ms)."""
        number, place = slot
        return self._period(number).start(place)

    def moved(self, slot: Slot, by: int) -> Slot:
        """The slot `by` places later, or earlier if it is negative."""
        number, place = slot
        place += by
        if self._size >= 2 * _DAY_MS:  # clocks never go back by that much: all periods have the same slots
            return number + place // self._slots, place % self._slots
        while place < 0:
            number -= 1
            place += self._period(number).slots
        while place >= (slots := self._period(number).slots):
            number += 1
            place -= slots
        return number, place

    def after(self, moment: int) -> int:
        """The first boundary after a time."""
        period = self._period(self._number(moment))
        return period.start(period.number(moment) + 1)

    def starts(self, times: Times) -> Times:
        """The start of each time's slot."""
        if not times.size:
            return times
        first, last = self._number(int(times.min())), self._number(int(times.max()))
        if first == last:
            return self._period(first).starts(times)
        if last - first <= _PERIODS_SCANNED:
            numbers = np.arange(first, last + 1, dtype=np.int64)
            begins = np.array([self._period(number).begin for number in numbers.tolist()], dtype=np.int64)
            numbers = numbers[np.searchsorted(begins, times, side="right") - 1]
        else:
            numbers = self._local.days(times) // self._days
        starts = np.empty_like(times)
        for number in np.unique(numbers).tolist():
            inside = numbers == number
            starts[inside] = self._period(number).starts(times[inside])
        return starts

    def is_even(self, moment: int) -> bool:
        """Whether clocks run evenly wherever windows reach that contain a time."""
        first, last = self._number(moment - self._size), self._number(moment + self._size)
        return all(not self._period(number).stretches for number in range(first, last + 1))

    def _number(self, moment: int) -> int:
        """The number of the period that a time lies in."""
        begin, end, number = self._latest
        if begin <= moment < end:
            return number
        at = bisect.bisect_right(self._begins, moment) - 1
        if at >= 0 and moment < self._periods[self._numbers[at]].end:
            number = self._numbers[at]
        else:
            number = self._local.day(moment) // self._days
        period = self._period(number)
        self._latest = period.begin, period.end, number
        return number

    def _period(self, number: int) -> _Period:
        period = self._periods.get(number)
        if period is None:
            if len(self._periods) >= _PERIODS_KEPT:
                self._periods.clear()
                self._numbers.clear()
                self._begins.clear()
            period = self._periods[number] = self._divided(number)
            at = bisect.bisect(self._numbers, number)
            self._numbers.insert(at, number)
            self._begins.insert(at, period.begin)
        return period

    def _divided(self, number: int) -> _Period:
        day = number * self._days
        begin, end = self._local.begin(day), self._local.begin(day + self._days)
        total = self._days * _DAY_MS
        if begin == end:
            return _Period(begin, end, self._step, self._slots, (_Stretch(begin, 0, 0),))
        nominal = day * _DAY_MS + self._local.offset
        stretches: list[_Stretch] = []
        ignored, before = 0, 0
        for time, shift in self._local.changes(begin, end):
            change = shift - before
            before = shift
            if stretches and self._size < -change and change % self._unit == 0:
                ignored += change
                continue
            reading = time + shift - ignored - nominal
            shown = max(stretches[-1].shown, _ended(stretches[-1], time)) if stretches else 0
            stretches.append(_Stretch(time, reading, shown))
        slots = (total - ignored) // self._step
        even = len(stretches) == 1 and stretches[0].reading == 0 and end - begin == slots * self._step
        return _Period(begin, end, self._step, slots, () if even else tuple(stretches))


def _ended(stretch: _Stretch, end: int) -> int:
    """What the clocks would have shown at the end of a stretch."""
    return stretch.reading + end - stretch.begin


@dataclass(frozen=True, slots=True)
class LocalSliding:
    """A window is `count` consecutive slots; a pane is a slot. With one slot: tumbling windows."""

    grid: Grid
    count: int = 1

    def panes(self, times: Times) -> Times:
        """The slot of each time."""
        return self.grid.starts(times)

    def pane_end(self, pane: int) -> int:
        """The slot's end."""
        return self.grid.after(pane)

    def is_even(self, pane: int) -> bool:
        """Whether clocks run evenly wherever the pane's windows reach."""
        return self.grid.is_even(pane)

    def first(self, pane: int, after: int = TIME_MIN) -> Span:
        """The window that ends with this slot, or the first one that ends after `after`."""
        if self.count == 1:
            return pane, self.grid.after(pane)
        end = self.grid.moved(self.grid.slot(max(pane, after)), 1)
        return self._span(self.grid.moved(end, -self.count))

    def last(self, pane: int) -> Span:
        """The window that starts with this slot."""
        if self.count == 1:
            return pane, self.grid.after(pane)
        return self._span(self.grid.slot(pane))

    def following(self, window: Span) -> Span:
        """The window one slot later. Slots that the clocks skip make windows with equal bounds, and empty ones: these
        are passed over."""
        start, end = window
        if self.count == 1:
            return end, self.grid.after(end)
        # the last place of all with these bounds; the next one has other bounds
        slot = min(self.grid.slot(start), self.grid.moved(self.grid.slot(end), -self.count))
        found = window
        while found == window or found[0] == found[1]:
            slot = self.grid.moved(slot, 1)
            found = self._span(slot)
        return found

    def firsts(self, panes: Sequence[int], after: Sequence[int]) -> list[Span]:
        """Searched pane by pane."""
        return [self.first(pane, bound) for pane, bound in zip(panes, after, strict=True)]

    def lasts(self, panes: Sequence[int]) -> list[Span]:
        """Searched pane by pane."""
        return [self.last(pane) for pane in panes]

    def followings(self, windows: Sequence[Span]) -> list[Span]:
        """Searched window by window."""
        return [self.following(window) for window in windows]

    def _span(self, slot: Slot) -> Span:
        return self.grid.start(slot), self.grid.start(self.grid.moved(slot, self.count))


@dataclass(frozen=True, slots=True)
class LocalCumulate:
    """Cumulate windows: a pane is a step, which is a slot. `count` of them, from a period's begin on, are a full
    window."""

    grid: Grid
    count: int

    def panes(self, times: Times) -> Times:
        """The step of each time."""
        return self.grid.starts(times)

    def pane_end(self, pane: int) -> int:
        """The step's end."""
        return self.grid.after(pane)

    def is_even(self, pane: int) -> bool:
        """Whether clocks run evenly wherever the pane's windows reach."""
        return self.grid.is_even(pane)

    def first(self, pane: int, after: int = TIME_MIN) -> Span:
        """The window that ends with this step, or the first one that ends after `after`."""
        start, full = self.last(pane)
        return start, min(self.grid.after(max(pane, after)), full)

    def last(self, pane: int) -> Span:
        """The full window."""
        number, place = self.grid.slot(pane)
        slot = number, place // self.count * self.count
        return self.grid.start(slot), self.grid.start(self.grid.moved(slot, self.count))

    def following(self, window: Span) -> Span:
        """The window one step longer, at most the full one; after that, the first one of the next slot."""
        start, end = window
        return (start if end < self.last(start)[1] else end), self.grid.after(end)

    def firsts(self, panes: Sequence[int], after: Sequence[int]) -> list[Span]:
        """Searched pane by pane."""
        return [self.first(pane, bound) for pane, bound in zip(panes, after, strict=True)]

    def lasts(self, panes: Sequence[int]) -> list[Span]:
        """Searched pane by pane."""
        return [self.last(pane) for pane in panes]

    def followings(self, windows: Sequence[Span]) -> list[Span]:
        """Searched window by window."""
        return [self.following(window) for window in windows]
