"""Partial aggregation before the exchange (Flink's local and global aggregation): the combiner aggregates in the
sending subtask, the operator in the reading subtask.

    sender:   batch ──combine──> Partials ──> exchange, by key ──┐
                        └──> rows that it leaves as they are ────┤
    reader:   operator  <──take_partials / on_batch──────────────┘

Partial aggregates merge exactly, in any order. So no result depends on which rows the combiner leaves as they are, or
on their batches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

import polars as pl

from headrace.operators.operator import Collector, Operator


@dataclass(frozen=True, slots=True)
class Partials:
    """Partial aggregates of one step: a frame for each part of its state, all with the step's key columns.

    ordered   whether the aggregated rows had order columns
    """

    parts: tuple[pl.DataFrame, ...]
    ordered: bool


class Combiner(Protocol):
    """The part of a step that runs in the sending subtask. Used by one thread."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The step's key columns, by which rows and partials must be partitioned."""
        ...

    def combine(self, batch: pl.DataFrame, out: Collector) -> Partials | None:
        """Partial aggregates of a batch of at least one row; None if it combined no row. Emits the rows that it does
        not combine to `out`, and counts the others as `rows_in`."""
        ...


@runtime_checkable
class CombiningOperator(Operator, Protocol):
    """An operator that accepts partial aggregates beside rows."""

    def take_partials(self, partials: Partials) -> None:
        """Adds partials to the operator's state."""
        ...


def concat_partials(partials: Sequence[Partials]) -> Partials:
    """Concatenates at least one partials of one step. A column that one of them lacks is NULL in its rows."""
    parts = zip(*(each.parts for each in partials), strict=True)
    made = tuple(pl.concat(part, how="diagonal", rechunk=False) for part in parts)
    return Partials(made, any(each.ordered for each in partials))


Divide = Callable[[pl.DataFrame], Sequence[tuple[int, pl.DataFrame]]]
"""Splits rows by a number that depends on their keys only."""


def split_partials(partials: Partials, divide: Divide) -> Iterator[tuple[int, Partials]]:
    """Splits partials by number. All rows of a key have the same number; a part may have no rows for a number."""
    divided = [dict(divide(part)) if part.height else {} for part in partials.parts]
    for number in divided[0]:
        own = tuple(each.get(number, part.clear()) for each, part in zip(divided, partials.parts, strict=True))
        yield number, Partials(own, partials.ordered)
