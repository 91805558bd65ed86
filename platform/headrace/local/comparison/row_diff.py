"""How two sets of rows differ: missing and unexpected rows, close ones paired so that the column to blame is named.

Pure. Rows are compared as multisets: NaN equals NaN, -0.0 equals 0.0 unless asked for exactly, everything else exactly.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import polars as pl

Row = Mapping[str, object]
Identity = Callable[[object], Hashable]
PAIRS_MAX = 200
"""Pairs of close rows are looked for among so many rows at most: it compares each with each."""


@dataclass(frozen=True, slots=True)
class ChangedRow:
    """An unexpected row close to a missing one; `columns` differ."""

    expected: Row
    actual: Row
    columns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class RowDiff:
    """Rows that are missing, rows that nobody expected, and pairs of both that differ in a few columns."""

    missing: tuple[Row, ...]
    unexpected: tuple[Row, ...]
    changed: tuple[ChangedRow, ...]

    @property
    def differs(self) -> bool:
        """Whether there is any difference."""
        return bool(self.missing or self.unexpected or self.changed)


def diff_rows(
    expected: pl.DataFrame, actual: pl.DataFrame, *, key: Sequence[str] | None = None, exact: bool = False
) -> RowDiff:
    """Compares frames of equal columns as multisets of rows.

    key: rows of one key belong together; exact: -0.0 is not 0.0
    """
    identity = partial(_identity, exact=exact)
    wanted, found = expected.to_dicts(), actual.select(expected.columns).to_dicts()
    surplus = Counter(map(identity, found))
    surplus.subtract(map(identity, wanted))
    missing = _taken(wanted, {row: -count for row, count in surplus.items() if count < 0}, identity)
    unexpected = _taken(found, {row: count for row, count in surplus.items() if count > 0}, identity)
    changed = _paired(missing, unexpected, key, identity)
    return RowDiff(tuple(missing), tuple(unexpected), tuple(changed))


def _taken(rows: list[dict[str, object]], counts: dict[Hashable, int], identity: Identity) -> list[dict[str, object]]:
    taken = []
    for row in rows:
        own = identity(row)
        if counts.get(own, 0) > 0:
            counts[own] -= 1
            taken.append(row)
    return taken


def _paired(
    missing: list[dict[str, object]],
    unexpected: list[dict[str, object]],
    key: Sequence[str] | None,
    identity: Identity,
) -> list[ChangedRow]:
    """Takes close rows out of both lists, the closest first. Close: at least half of the columns are equal."""
    candidates = sorted(
        (len(columns), i, j, columns)
        for i, wanted in enumerate(missing[:PAIRS_MAX])
        for j, found in enumerate(unexpected[:PAIRS_MAX])
        for columns in [_differing(wanted, found, identity)]
        if _close(columns, len(wanted), key)
    )
    gone: tuple[set[int], set[int]] = (set(), set())
    pairs = []
    for _, i, j, columns in candidates:
        if i not in gone[0] and j not in gone[1]:
            gone[0].add(i)
            gone[1].add(j)
            pairs.append(ChangedRow(missing[i], unexpected[j], columns))
    missing[:] = [row for i, row in enumerate(missing) if i not in gone[0]]
    unexpected[:] = [row for j, row in enumerate(unexpected) if j not in gone[1]]
    return pairs


def _close(columns: Sequence[str], width: int, key: Sequence[str] | None) -> bool:
    if key is not None:
        return not set(columns) & set(key)
    return len(columns) * 2 <= width


def _differing(wanted: Row, found: Row, identity: Identity) -> tuple[str, ...]:
    return tuple(name for name in wanted if identity(wanted[name]) != identity(found[name]))


def _identity(value: object, *, exact: bool) -> Hashable:
    """What makes a value equal to another of its column."""
    match value:
        case dict():
            return tuple(_identity(item, exact=exact) for item in value.values())
        case list():
            return ("list", *(_identity(item, exact=exact) for item in value))
        case float():
            if math.isnan(value):
                return "NaN"
            return (value, math.copysign(1.0, value)) if exact else value + 0.0
        case _:
            assert isinstance(value, Hashable)
            return value
