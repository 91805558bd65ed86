"""Signals that travel in the same queues as batches. A signal keeps its place among batches and needs no credit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

if TYPE_CHECKING:
    import polars as pl

TIME_MIN = -(1 << 63)
"""The initial watermark: minus infinity."""
TIME_MAX = (1 << 63) - 1
"""The watermark after the last row: +infinity."""


@dataclass(frozen=True, slots=True)
class Watermark:
    """No row with event time <= `ts` (epoch ms) that is on time will follow."""

    ts: int


@dataclass(frozen=True, slots=True)
class Barrier:
    """Separates the rows of epoch `epoch` from those of the next."""

    epoch: int


@dataclass(frozen=True, slots=True)
class EndOfInput:
    """Nothing follows. It closes no window: `Watermark(TIME_MAX)` does."""


Signal = Watermark | Barrier | EndOfInput
Element: TypeAlias = "pl.DataFrame | Signal"
