"""A value with its position in an order of rows, as mergeable state: first and last, arg_min and arg_max.

Owns the search for the first or last position of a group. Each row gets its rank in the order. A group keeps the least
or greatest rank of its rows with a value, and the columns of that row are gathered. If positions are equal, the row's
value decides. The prefix of a state column determines order and choice:

    __first. __last.      the first or last row of the order
    __argmin. __argmax.   the first row of the order; of __argmax. the first column of the order descends
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import polars as pl

FIRST, LAST, LEAST, MOST = "__first.", "__last.", "__argmin.", "__argmax."
_RANK = "__rank."


@dataclass(frozen=True, slots=True)
class PositionedValue:
    """One call's state: the column of its value and those of its position, most significant first."""

    prefix: str
    value: str
    order: tuple[str, ...]

    def pick(self) -> pl.Expr:
        """The rank of the group's row: greatest for last, least for the others, among rows with a value."""
        ranks = pl.when(pl.col(self.value).is_not_null()).then(pl.col(_RANK + self.prefix))
        return (ranks.max() if self.prefix.startswith(LAST) else ranks.min()).alias(_RANK + self.prefix)

    def state_columns(self) -> list[tuple[str, str]]:
        """(column of this frame, name of the state column), for the value and each part of the position."""
        return [
            (self.value, f"{self.prefix}.v"),
            *((name, f"{self.prefix}.{index}") for index, name in enumerate(self.order)),
        ]


def positioned_in(columns: Sequence[str]) -> list[PositionedValue]:
    """The places whose state these columns hold."""
    places = []
    for name in columns:
        if name.endswith(".v") and name.startswith((FIRST, LAST, LEAST, MOST)):
            prefix = name[:-2]
            order = sorted(
                (other for other in columns if other.startswith(f"{prefix}.") and other != name), key=_number
            )
            places.append(PositionedValue(prefix, name, tuple(order)))
    return places


def _number(column: str) -> int:
    return int(column.rpartition(".")[2])


def rank(frame: pl.DataFrame, places: Sequence[PositionedValue]) -> tuple[pl.DataFrame, list[pl.Series]]:
    """Adds a rank column per place; also returns, per place, the row index of each rank."""
    orders = []
    ranks = []
    for place in places:
        keys = list(place.order)
        if not frame.schema[place.value].is_nested():
            keys.append(place.value)
        descending = [place.prefix.startswith(MOST) and key == place.order[0] for key in keys]
        rows = frame.select(pl.arg_sort_by(keys, descending=descending).alias("rows")).to_series()
        orders.append(rows)
        # the inverse permutation: the rank of each row
        ranks.append(rows.arg_sort().alias(_RANK + place.prefix))
    return frame.with_columns(ranks), orders


def gather(
    grouped: pl.DataFrame, frame: pl.DataFrame, places: Sequence[PositionedValue], orders: Sequence[pl.Series]
) -> pl.DataFrame:
    """Replaces the picked ranks in `grouped` by the state columns of the corresponding rows of `frame`."""
    made: list[pl.Series] = []
    for place, rows in zip(places, orders, strict=True):
        picked = rows.gather(grouped.get_column(_RANK + place.prefix))
        made += [frame.get_column(source).gather(picked).alias(target) for source, target in place.state_columns()]
    return grouped.drop([_RANK + place.prefix for place in places]).with_columns(made)
