"""Finds rows in parts by key.

A part is searched by the kernel (`kernels.state`). Without kernels, and for key types that the kernel does not know, it
is searched by a join: the same rows, found more slowly.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl

from headrace.kernels.state import runs as kernel
from headrace.kernels.state.key_index import sorted_order
from headrace.state.combine import ASKED, KIND, Kind
from headrace.state.row_groups import KeyOrder
from headrace.state.runs import Part

AGE = "__age"
"""Column of rows that were asked for: the number of their part, the earlier ones first."""


def rows_of(parts: Sequence[Part], asked: pl.DataFrame, order: KeyOrder | None) -> list[pl.DataFrame]:
    """All rows of the parts with the asked keys, as frames; frames may differ in columns. asked: distinct keys."""
    if order is None:
        return [part.frame for part in parts if part.frame.height]
    found: list[pl.DataFrame] = []
    if parts and asked.height:
        alike, others = _alike(parts)
        keys = list(order.keys)
        found += [parts[age].frame.join(asked, on=keys, how="semi", nulls_equal=True) for age in others]
        found += [match.rows() for match in _searched(alike, _asked(asked, order), kernel.find_all)]
    return [frame for frame in found if frame.height]


def numbered_rows(
    parts: Sequence[Part], asked: pl.DataFrame, order: KeyOrder, near: Near | None = None
) -> list[pl.DataFrame]:
    """As `rows_of`, with the number of the asked key (ASKED) and of the part (AGE) of each row. asked: any keys.

    near: only these rows
    """
    names = [] if near is None else near.names
    found: list[pl.DataFrame] = []
    if not parts or not asked.height:
        return found
    numbered = asked.with_row_index(ASKED)
    alike, others = _alike(parts)
    for age in others:
        rows = parts[age].frame.join(numbered, on=list(order.keys), nulls_equal=True, maintain_order="left_right")
        rows = rows.with_columns(pl.lit(age, pl.UInt32).alias(AGE))
        found.append(rows if near is None else rows.filter(near.mask(rows)))
    for match in _searched(alike, _asked(asked, order), kernel.find_all):
        # only rows that are near are gathered
        is_near = None if near is None else near.mask(match.rows(match.known(names), numbered=True))
        found.append((match if is_near is None else match.filtered(is_near.to_numpy())).rows(numbered=True))
    return [frame for frame in found if frame.height]


def newest_rows(parts: Sequence[Part], asked: pl.DataFrame, order: KeyOrder) -> list[pl.DataFrame]:
    """The row of each asked key that the last part has, with ASKED: parts have one row a key. asked: any keys."""
    alike, others = _alike(parts)
    if others:
        found = numbered_rows(parts, asked, order)
        rows = pl.concat(found, how="diagonal").sort(AGE, maintain_order=True) if found else None
        return [] if rows is None else [rows.unique(ASKED, keep="last").drop(AGE)]
    if not parts or not asked.height:
        return []
    newest = np.full(asked.height, -1, np.int64)
    matches = list(_searched(alike, _asked(asked, order), _find_newest))
    if len(matches) == 1:
        return [matches[0].rows(numbered=True, aged=False)]
    for match in matches:
        np.maximum.at(newest, match.asked, match.age)
    return [match.filtered(match.age == newest[match.asked]).rows(numbered=True, aged=False) for match in matches]


class Near:
    """Rows whose column is within bounds, of each asked key. Tombstones of keys are among them."""

    def __init__(self, column: str, low: pl.Series, high: pl.Series) -> None:
        """low, high: of each asked key, inclusive; NULL: no row."""
        self.names = [column, KIND]
        self._column, self._low, self._high = column, low, high

    def may_have(self, part: Part) -> bool:
        """Whether rows of a part may be near."""
        span, least, greatest = part.span(self._column), self._low.min(), self._high.max()
        if span is None or not isinstance(least, int) or not isinstance(greatest, int):
            return True
        return span[0] <= greatest and least <= span[1]

    def mask(self, rows: pl.DataFrame) -> pl.Series:
        """Which rows, with ASKED, are near."""
        asked = rows.get_column(ASKED)
        kept = pl.repeat(value=False, n=rows.height, eager=True)
        # a part may have tombstones of keys only
        if self._column in rows.columns:
            value = rows.get_column(self._column)
            kept = ((value >= self._low[asked]) & (value <= self._high[asked])).fill_null(value=False)
        if KIND in rows.columns:
            kept |= (rows.get_column(KIND) == Kind.KEY_GONE).fill_null(value=False)
        return kept


def _asked(keys: pl.DataFrame, order: KeyOrder) -> kernel.AskedKeys:
    places = order.places(keys)
    rows = sorted_order(places)
    return kernel.AskedKeys(places[rows], keys, rows)


@dataclass(frozen=True, slots=True)
class _Matches:
    """Rows of parts with the same columns. asked, age: the number of the key, and of the part among all."""

    runs: list[kernel.RunColumns]
    names: tuple[str, ...]
    asked: kernel.Rows
    age: npt.NDArray[np.int64]
    run: kernel.RunNumbers
    row: kernel.Rows

    def known(self, names: Sequence[str]) -> list[str]:
        return [name for name in names if name in self.names]

    def filtered(self, mask: npt.NDArray[np.bool_]) -> _Matches:
        return _Matches(self.runs, self.names, self.asked[mask], self.age[mask], self.run[mask], self.row[mask])

    def rows(self, names: Sequence[str] | None = None, *, numbered: bool = False, aged: bool = True) -> pl.DataFrame:
        """The rows; numbered: with ASKED; aged: and AGE."""
        frame = kernel.gather(self.runs, self.run, self.row, self.names if names is None else names)
        if numbered:
            frame.insert_column(frame.width, pl.Series(ASKED, self.asked, pl.UInt32))
            if aged:
                frame.insert_column(frame.width, pl.Series(AGE, self.age.astype(np.uint32), pl.UInt32))
        return frame


_Found = tuple[kernel.Rows, kernel.RunNumbers, kernel.Rows]
_Find = Callable[[Sequence[kernel.RunColumns], kernel.AskedKeys], _Found]


def _find_newest(runs: Sequence[kernel.RunColumns], asked: kernel.AskedKeys) -> _Found:
    """As `find_all`, but only the row of the last run."""
    run, row = kernel.find(runs[::-1], asked)
    (found,) = np.nonzero(run >= 0)
    numbers = found.astype(np.uint32) if asked.order is None else asked.order[found]
    return numbers, np.int32(len(runs) - 1) - run[found], row[found]


_Alike = dict[tuple[str, ...], tuple[list[int], list[kernel.RunColumns]]]
"""Columns -> the numbers of the parts that have them, and what the kernel searches."""


def _alike(parts: Sequence[Part]) -> tuple[_Alike, list[int]]:
    """The parts by their columns; the numbers of those that the kernel does not search."""
    alike: _Alike = {}
    others = []
    for age, part in enumerate(parts):
        if (columns := part.columns) is None:
            others.append(age)
        elif (group := alike.get(part.names)) is None:
            alike[part.names] = [age], [columns]
        else:
            group[0].append(age)
            group[1].append(columns)
    return alike, others


def _searched(alike: _Alike, asked: kernel.AskedKeys, find: _Find) -> Iterator[_Matches]:
    """What the kernel finds: parts with the same columns are searched and gathered at once."""
    for names, (ages, runs) in alike.items():
        numbers, run, row = find(runs, asked)
        if run.size:
            yield _Matches(runs, names, numbers, np.array(ages)[run], run, row)
