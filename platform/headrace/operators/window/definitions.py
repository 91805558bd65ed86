"""Configurations of event-time windows. `assigner` implements them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from headrace.core.config import duration_text
from headrace.core.types import TIMESTAMP, Field
from headrace.operators.aggregation.window_text import WALL_CLOCK

if TYPE_CHECKING:
    from headrace.operators.window.assigner import Assigner
    from headrace.operators.window.local_time import Grid

WINDOW_COLUMNS = (Field("window_start", TIMESTAMP, nullable=False), Field("window_end", TIMESTAMP, nullable=False))
"""The columns that a windowed step adds to its keys."""
UTC = "UTC"
DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Tumbling:
    """Consecutive windows of `size_ms`. In a time zone: whole local days, or a part of a day."""

    size_ms: int
    offset_ms: int = 0
    timezone: str = UTC

    def check(self) -> list[str]:
        """Problems of the configuration; empty if there are none."""
        return _positive(self.size_ms, "tumbling") or _local_problems(self.timezone, self.size_ms, "tumbling")

    def definition(self) -> str:
        """The window definition as text: state of one definition fits no other."""
        return f"tumbling {self.size_ms} offset {self.offset_ms} {_zone(self.timezone, self.size_ms, self.size_ms)}"

    def assigner(self) -> Assigner:
        """The assigner of these windows."""
        if self.timezone == UTC:
            from headrace.operators.window.assigner import TumblingUtc

            return TumblingUtc(self.size_ms, self.offset_ms)
        from headrace.operators.window.local_time import LocalSliding

        return LocalSliding(_grid(self.timezone, self.offset_ms, step_ms=self.size_ms, size_ms=self.size_ms))


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
        """Problems of the configuration; empty if there are none."""
        if problems := _positive(self.size_ms, "sliding") or _every(self.size_ms, self.every_ms):
            return problems
        if self.timezone != UTC and self.size_ms % self.every_ms:
            return [f"in a time zone, every ({duration_text(self.every_ms)}) must divide the size of sliding windows"]
        return _local_problems(self.timezone, self.every_ms, "every")

    def definition(self) -> str:
        """The window definition as text: state of one definition fits no other."""
        zone = _zone(self.timezone, self.every_ms, self.every_ms)
        return f"sliding {self.size_ms} every {self.every_ms} offset {self.offset_ms} {zone}"

    def assigner(self) -> Assigner:
        """The assigner of these windows."""
        if self.timezone == UTC:
            from headrace.operators.window.assigner import SlidingUtc

            return SlidingUtc(self.size_ms, self.every_ms, self.offset_ms)
        from headrace.operators.window.local_time import LocalSliding

        grid = _grid(self.timezone, self.offset_ms, step_ms=self.every_ms, size_ms=self.size_ms)
        return LocalSliding(grid, self.size_ms // self.every_ms)


@dataclass(frozen=True, slots=True)
class Cumulate:
    """Windows that share a start and grow by `every_ms` up to `size_ms`; then the next windows begin."""

    size_ms: int
    every_ms: int
    offset_ms: int = 0
    timezone: str = UTC

    def check(self) -> list[str]:
        """Problems of the configuration; empty if there are none."""
        if problems := _positive(self.size_ms, "cumulate") or _every(self.size_ms, self.every_ms):
            return problems
        if self.size_ms % self.every_ms:
            return [f"every ({duration_text(self.every_ms)}) must divide the size of cumulate windows"]
        return _local_problems(self.timezone, self.size_ms, "cumulate")

    def definition(self) -> str:
        """The window definition as text: state of one definition fits no other."""
        zone = _zone(self.timezone, self.every_ms, self.size_ms)
        return f"cumulate {self.size_ms} every {self.every_ms} offset {self.offset_ms} {zone}"

    def assigner(self) -> Assigner:
        """The assigner of these windows."""
        if self.timezone == UTC:
            from headrace.operators.window.assigner import CumulateUtc

            return CumulateUtc(self.size_ms, self.every_ms, self.offset_ms)
        from headrace.operators.window.local_time import LocalCumulate

        local = _grid(
            self.timezone, self.offset_ms, step_ms=self.every_ms, size_ms=self.size_ms, divided_ms=self.size_ms
        )
        return LocalCumulate(local, self.size_ms // self.every_ms)


Window = Tumbling | Sliding | Cumulate


def window_of(definition: str) -> Window:
    """The window of a definition (`definition()` of it)."""
    kind, size, *between, offset, timezone = definition.removesuffix(WALL_CLOCK).split()
    if kind == "tumbling":
        return Tumbling(int(size), int(offset), timezone)
    every = int(between[1])
    return (Sliding if kind == "sliding" else Cumulate)(int(size), every, int(offset), timezone)


def window_words(window: Window) -> str:
    """The window for readers of a plan: `sliding 1h every 10m in Europe/Berlin`."""
    text = f"{type(window).__name__.lower()} {duration_text(window.size_ms)}"
    if isinstance(window, Sliding | Cumulate):
        text += f" every {duration_text(window.every_ms)}"
    if window.offset_ms:
        text += f" offset {duration_text(window.offset_ms)}"
    return text if window.timezone == UTC else f"{text} in {window.timezone}"


def _zone(timezone: str, step_ms: int, divided_ms: int) -> str:
    divides = timezone != UTC and (step_ms % DAY_MS or step_ms != divided_ms)
    return timezone + WALL_CLOCK if divides else timezone


def _grid(timezone: str, offset_ms: int, *, step_ms: int, size_ms: int, divided_ms: int | None = None) -> Grid:
    """The grid of slots of `step_ms`. divided_ms: what local days are divided into, if that is not the step."""
    from headrace.operators.window.local_time import Grid, LocalDays

    part = divided_ms or step_ms
    days = max(1, part // DAY_MS)
    return Grid(LocalDays(timezone, offset_ms), step=step_ms, days=days, size=size_ms, unit=part)


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
