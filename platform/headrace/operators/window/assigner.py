"""Windows of event time: their configurations, and which windows a moment belongs to.

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

from headrace.core.config import duration_text

Times = npt.NDArray[np.int64]
Span = tuple[int, int]
"""A window: start and end."""

UTC = "UTC"
DAY_MS = 86_400_000


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
class Tumbling:
    """Windows of `size_ms`, one after the other. In a time zone: whole local days, or a part of a day."""

    size_ms: int
    offset_ms: int = 0
    timezone: str = UTC

    def check(self) -> list[str]:
        """What is wrong with it; empty if nothing."""
        return _positive(self.size_ms, "tumbling") or _local_problems(self.timezone, self.size_ms, "tumbling")

    def cut(self) -> str:
        """How it cuts time, in words: state of one cut fits no other."""
        return f"tumbling {self.size_ms} offset {self.offset_ms} {self.timezone}"

    def assigner(self) -> Assigner:
        """How it assigns windows."""
        if self.timezone == UTC:
            return TumblingUtc(self.size_ms, self.offset_ms)
        from headrace.operators.window.local_time import LocalDays, LocalTumbling, Slots

        return LocalTumbling(Slots(LocalDays(self.timezone, self.offset_ms), self.size_ms))


@dataclass(frozen=True, slots=True)
class Sliding:
    """Windows of `size_ms`, one starting every `every_ms`.

    In a time zone `every` must be whole days or divide a day, and divide the size: a window is then size / every
    consecutive local slots.
    """

    size_ms: int
    every_ms: int
    offset_ms: int = 0
    timezone: str = UTC

    def check(self) -> list[str]:
        """What is wrong with it; empty if nothing."""
        if problems := _positive(self.size_ms, "sliding") or _every(self.size_ms, self.every_ms):
            return problems
        if self.timezone != UTC and self.size_ms % self.every_ms:
            return [f"in a time zone, every ({duration_text(self.every_ms)}) must divide the size of sliding windows"]
        return _local_problems(self.timezone, self.every_ms, "every")

    def cut(self) -> str:
        """How it cuts time, in words: state of one cut fits no other."""
        return f"sliding {self.size_ms} every {self.every_ms} offset {self.offset_ms} {self.timezone}"

    def assigner(self) -> Assigner:
        """How it assigns windows."""
        if self.timezone == UTC:
            return SlidingUtc(self.size_ms, self.every_ms, self.offset_ms)
        from headrace.operators.window.local_time import LocalDays, LocalSliding, Slots

        slots = Slots(LocalDays(self.timezone, self.offset_ms), self.every_ms)
        return LocalSliding(slots, self.size_ms // self.every_ms)


@dataclass(frozen=True, slots=True)
class Cumulate:
    """Windows that share a start and grow by `every_ms` up to `size_ms`, then start anew."""

    size_ms: int
    every_ms: int
    offset_ms: int = 0
    timezone: str = UTC

    def check(self) -> list[str]:
        """What is wrong with it; empty if nothing."""
        if problems := _positive(self.size_ms, "cumulate") or _every(self.size_ms, self.every_ms):
            return problems
        if self.size_ms % self.every_ms:
            return [f"every ({duration_text(self.every_ms)}) must divide the size of cumulate windows"]
        return _local_problems(self.timezone, self.size_ms, "cumulate")

    def cut(self) -> str:
        """How it cuts time, in words: state of one cut fits no other."""
        return f"cumulate {self.size_ms} every {self.every_ms} offset {self.offset_ms} {self.timezone}"

    def assigner(self) -> Assigner:
        """How it assigns windows."""
        if self.timezone == UTC:
            return CumulateUtc(self.size_ms, self.every_ms, self.offset_ms)
        from headrace.operators.window.local_time import LocalCumulate, LocalDays, Slots

        return LocalCumulate(Slots(LocalDays(self.timezone, self.offset_ms), self.size_ms), self.every_ms)


Window = Tumbling | Sliding | Cumulate


def _positive(size_ms: int, word: str) -> list[str]:
    return [] if size_ms > 0 else [f"the size of {word} windows must be more than 0"]


def _every(size_ms: int, every_ms: int) -> list[str]:
    if 0 < every_ms <= size_ms:
        return []
    return [f"every ({duration_text(every_ms)}) must be more than 0 and at most the size ({duration_text(size_ms)})"]


def _local_problems(timezone: str, span_ms: int, word: str) -> list[str]:
    if timezone == UTC:
        return []
    from headrace.operators.window.local_time import zone_problem

    if problem := zone_problem(timezone):
        return [problem]
    if span_ms % DAY_MS and DAY_MS % span_ms:
        return [f"in a time zone, {word} ({duration_text(span_ms)}) must be whole days or divide a day"]
    return []


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
