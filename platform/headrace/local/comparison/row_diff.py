"""Computes the difference of two sets of rows: missing and extra rows, similar ones paired by column. Pure.

Rows are compared as multisets. Values are equal as in `row_equality`, except that -0.0 equals 0.0 unless `exact`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import polars as pl

from headrace.local.comparison.row_equality import comparable, surplus_rows

Row = Mapping[str, object]
Values = tuple[object, ...]
PAIRS_MAX = 200
"""At most this many rows are searched for similar pairs: each row is compared with each."""


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """A missing row (`expected`) and a similar extra one (`actual`); `columns` differ."""

    expected: Row
    actual: Row
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowDiff:
    """Missing rows, extra rows, and pairs of both that differ in a few columns."""

    missing: tuple[Row, ...]
    extra: tuple[Row, ...]
    changed: tuple[ChangedRow, ...]

    @property
    def differs(self) -> bool:
        """Whether there is any difference."""
        return bool(self.missing or self.extra or self.changed)


def diff_rows(
    expected: pl.DataFrame, actual: pl.DataFrame, *, key: Sequence[str] | None = None, exact: bool = False
) -> RowDiff:
    """Compares frames of equal columns as multisets of rows.

    key: only rows of the same key are paired; exact: -0.0 differs from 0.0.
    """
    missing, extra = surplus_rows(expected, actual.select(expected.columns), exact=exact)
    left, right = (comparable(rows.head(PAIRS_MAX), exact=exact) for rows in (missing, extra))
    pairs = _paired(left, right, expected.columns, key)
    wanted, found = missing.to_dicts(), extra.to_dicts()
    changed = tuple(ChangedRow(wanted[i], found[j], columns) for (i, j), columns in pairs.items())
    gone, come = {i for i, _ in pairs}, {j for _, j in pairs}
    return RowDiff(
        tuple(row for i, row in enumerate(wanted) if i not in gone),
        tuple(row for j, row in enumerate(found) if j not in come),
        changed,
    )


def _paired(
    missing: Sequence[Values], extra: Sequence[Values], names: Sequence[str], key: Sequence[str] | None
) -> dict[tuple[int, int], tuple[str, ...]]:
    """Pairs of similar rows, the most similar first, with the columns that differ.

    Rows are similar if at least half of their columns are equal or, with a key, if the key columns are.
    """
    candidates = sorted(
        (len(columns), i, j, columns)
        for i, wanted in enumerate(missing)
        for j, found in enumerate(extra)
        for columns in [tuple(name for name, a, b in zip(names, wanted, found, strict=True) if a != b)]
        if _close(columns, len(names), key)
    )
    pairs: dict[tuple[int, int], tuple[str, ...]] = {}
    gone: tuple[set[int], set[int]] = (set(), set())
    for _, i, j, columns in candidates:
        if i not in gone[0] and j not in gone[1]:
            gone[0].add(i)
            gone[1].add(j)
            pairs[i, j] = columns
    return pairs


def _close(columns: Sequence[str], width: int, key: Sequence[str] | None) -> bool:
    if key is not None:
        return not set(columns) & set(key)
    return len(columns) * 2 <= width
