"""Rows that become partial aggregates where they are made, before they travel: a step in two halves (Flink's local and
global aggregation).

    sender:   batch ──combine──> Partials ──> exchange, by key ──┐
                        └──> rows that it leaves as they are ────┤
    reader:   operator  <──take_partials / on_batch──────────────┘

Which rows are combined, and in what batches, changes no result: partial aggregates merge exactly, in any order.
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

    ordered   whether the rows that they are made of had order columns
    """

    parts: tuple[pl.DataFrame, ...]
    ordered: bool


class Combiner(Protocol):
    """The sender's half of a step. Used by one thread."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The step's key columns, by which its rows and partials have to be spread."""
        ...

    def combine(self, batch: pl.DataFrame, out: Collector) -> Partials | None:
        """Partial aggregates of a batch of at least one row; what it leaves for the other half it emits. Counts what it
        takes. None: it took nothing."""
        ...


@runtime_checkable
class CombiningConfig(Protocol):
    """An operator's config that may have a combiner."""

    def combiner(self) -> Combiner | None:
        """A fresh one, for rows that are spread by the step's keys; None: rows of this step must come as they are."""
        ...


@runtime_checkable
class CombiningOperator(Operator, Protocol):
    """An operator that takes partial aggregates too."""

    def take_partials(self, partials: Partials) -> None:
        """Adds them to its state."""
        ...


def concat_partials(partials: Sequence[Partials]) -> Partials:
    """All of them as one, of a step's; at least one. Columns that one of them leaves out are NULL there."""
    parts = zip(*(each.parts for each in partials), strict=True)
    made = tuple(pl.concat(part, how="diagonal", rechunk=False) for part in parts)
    return Partials(made, any(each.ordered for each in partials))


Divide = Callable[[pl.DataFrame], Sequence[tuple[int, pl.DataFrame]]]
"""Rows by number, by their keys alone."""


def split_partials(partials: Partials, divide: Divide) -> Iterator[tuple[int, Partials]]:
    """Partials by number. All parts of a key have the same one; some parts of it may be without rows."""
    divided = [dict(divide(part)) if part.height else {} for part in partials.parts]
    for number in divided[0]:
        own = tuple(each.get(number, part.clear()) for each, part in zip(divided, partials.parts, strict=True))
        yield number, Partials(own, partials.ordered)
