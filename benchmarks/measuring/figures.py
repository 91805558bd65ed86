"""CPU time of this process and its children, and medians with their spread."""

from __future__ import annotations

import resource
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


def cpu_seconds() -> float:
    """User and system time of this process and of children that ended."""
    own, children = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime


@dataclass(slots=True)
class Stopwatch:
    """CPU and wall seconds since its construction."""

    cpu_start: float
    wall_start: float

    @staticmethod
    def start() -> Stopwatch:
        return Stopwatch(cpu_seconds(), time.perf_counter())

    def report(self, rows: int, rows_out: int) -> dict[str, float]:
        cpu, wall = cpu_seconds() - self.cpu_start, time.perf_counter() - self.wall_start
        return {"rows": rows, "rows_out": rows_out, "cpu_s": cpu, "wall_s": wall, "rows_per_cpu_s": rows / cpu}


def median(values: Sequence[float]) -> float:
    return statistics.median(values)


def spread(values: Sequence[float]) -> str:
    """Lowest and highest."""
    return f"{min(values):,.0f} .. {max(values):,.0f}"


@dataclass(frozen=True, slots=True)
class Figure:
    """One measurement: the values of `value` and, if it is a comparison, of `other`, one per pair or run."""

    name: str
    unit: str
    value: list[float]
    other: list[float]

    @property
    def ratio(self) -> float | None:
        return median(self.value) / median(self.other) if self.other else None

    def text(self, beside: str) -> str:
        """Formats a line. beside: the name of `other`."""
        line = f"{self.name}: {median(self.value):,.0f} {self.unit} ({spread(self.value)})"
        if self.ratio is None:
            return line
        return f"{line}   {beside} {median(self.other):,.0f} ({spread(self.other)})   ratio {self.ratio:.3f}"


def alternating(
    name: str, pairs: int, value: Callable[[], float], other: Callable[[], float], unit: str = "rows/CPU-s"
) -> Figure:
    """Runs both in pairs, with alternating order; the first pair is warm-up and is excluded."""

    def both(pair: int) -> tuple[float, float]:
        if pair % 2:
            return value(), other()
        before = other()
        return value(), before

    return paired(name, pairs, both, unit)


def paired(name: str, pairs: int, both: Callable[[int], tuple[float, float]], unit: str = "rows/CPU-s") -> Figure:
    """The values of each pair, which `both` measures; the first pair is warm-up and is excluded."""
    found: list[tuple[float, float]] = []
    for pair in range(pairs + 1):
        found.append(both(pair))
        print(f"{name} {pair}/{pairs}: {found[-1][0]:,.0f} beside {found[-1][1]:,.0f}", file=sys.stderr, flush=True)
    return Figure(name, unit, [one for one, _ in found[1:]], [two for _, two in found[1:]])
