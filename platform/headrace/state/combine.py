"""What a table holds, and how its rows combine: `TableConfig`, and the rules for rows of one key. Pure.

    Last     a row replaces the earlier one with the same key and order columns
    Append   rows stay beside each other
    Merged   a function makes one row of those with one key; their order does not matter

A deletion is a row, too (a tombstone): column KIND says what it deletes of the rows that were written before it. It
goes once no earlier rows can be left. Frames without tombstones have no such column.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import assert_never

import polars as pl

from headrace.core.signals import TIME_MIN

ASKED = "__asked"
"""Column of rows that were asked for: the number of their key."""
KIND = "__kind"
"""Column of rows among which are tombstones: int8 of `Kind`; NULL or no column: all are rows."""
_AT = "__at"

Merge = Callable[[Sequence[pl.DataFrame]], pl.DataFrame]
"""Merges frames, which may differ in columns, to one with a row per key."""


class Kind(IntEnum):
    """ENTRY_GONE deletes the row with its key and order columns, KEY_GONE all rows with its key."""

    ROW = 0
    ENTRY_GONE = 1
    KEY_GONE = 2


@dataclass(frozen=True, slots=True)
class Last:
    """A row replaces the earlier one with the same key and order columns."""


@dataclass(frozen=True, slots=True)
class Append:
    """Rows stay beside each other, in the order of the order columns; equal ones in that of their writing."""


@dataclass(frozen=True, slots=True)
class Merged:
    """Rows with one key become one row. merge: associative; the order of rows does not matter to it."""

    merge: Merge


Combine = Last | Append | Merged


@dataclass(frozen=True, slots=True)
class TableConfig:
    """A table of keyed state.

    keys      the columns by which rows are found; none: all rows belong together
    order     columns that tell the rows of a key apart, and by which they are sorted
    bucket    an int64 column, one of keys and order: rows of one bucket lie in runs of their own, and are dropped
              together
    written   an int64 column: the time of the last write of a row, in ms. A row that replaces or deletes another one
              has no earlier time. Restored rows without one count as written at the time of the restore
    ttl_ms    a row is gone for accesses at or after its time + ttl; None: rows do not expire
    """

    keys: tuple[str, ...]
    combine: Combine
    order: tuple[str, ...] = ()
    bucket: str | None = None
    written: str | None = None
    ttl_ms: int | None = None

    def __post_init__(self) -> None:
        """Checks what its fields demand of each other."""
        assert self.keys or isinstance(self.combine, Merged), "rows that replace others have a key"
        assert not self.order or not isinstance(self.combine, Merged), "a merge makes one row of a key"
        assert self.order or not isinstance(self.combine, Append), "rows of a key have an order"
        assert self.bucket is None or self.bucket in (*self.keys, *self.order), "a row stays in its bucket"
        assert self.ttl_ms is None or (self.ttl_ms > 0 and self.written is not None and self.is_ordered), (
            "rows that expire have a time, and are not merged with others"
        )

    @property
    def is_ordered(self) -> bool:
        """Whether it matters which of two rows was written later."""
        return not isinstance(self.combine, Merged)

    @property
    def is_single(self) -> bool:
        """Whether a key has one row at most: the one that was written last."""
        return isinstance(self.combine, Last) and not self.order

    def reduced(self, frames: Sequence[pl.DataFrame], by: Sequence[str]) -> pl.DataFrame:
        """The rows of frames, without what later rows replace or delete. by: the columns of a key.

        frames   the earlier ones first. Each may have several rows of a key, the earlier ones first
        """
        match self.combine:
            case Merged(merge):
                return merge(frames)
            case Append():
                return _undeleted(_one(frames), by)
            case Last():
                rows = _undeleted(_one(frames), by)
                # where all rows are tombstones of keys there are no order columns
                return _newest(rows, [*by, *(name for name in self.order if name in rows.columns)])
            case _:
                assert_never(self.combine)

    def living(self, rows: pl.DataFrame, at: int | pl.Series | None, *, whole: bool) -> pl.Series | None:
        """Which rows have not expired; None: all. whole: tombstones do not live, because no earlier rows are left.

        at   the time of the access, in ms; a time for each row; None: any time
        """
        lives: pl.Series | None = None
        if self.ttl_ms is not None and self.written is not None and at is not None and rows.height:
            gone = max(TIME_MIN, at - self.ttl_ms) if isinstance(at, int) else at - self.ttl_ms
            lives = rows.get_column(self.written) > gone
        if whole and KIND in rows.columns:
            is_row = rows.get_column(KIND).fill_null(Kind.ROW) == Kind.ROW
            lives = is_row if lives is None else lives & is_row
        return None if lives is None or lives.all() else lives

    def timed(self, rows: pl.DataFrame, now: int) -> pl.DataFrame:
        """Restored rows, of which those without a time of writing were written at `now`."""
        name = self.written
        if self.ttl_ms is None or name is None:
            return rows
        if name not in rows.columns:
            return rows.with_columns(pl.lit(now, pl.Int64).alias(name))
        return rows.with_columns(pl.col(name).fill_null(now)) if rows.get_column(name).null_count() else rows


def _one(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return frames[0] if len(frames) == 1 else pl.concat(frames, how="diagonal")


def _undeleted(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The rows from the last tombstone of their key on, which stays the first of the key."""
    if KIND not in rows.columns:
        return rows
    gone = pl.col(_AT).filter(pl.col(KIND) == Kind.KEY_GONE).max().over(list(by))
    return rows.with_row_index(_AT).filter((pl.col(_AT) >= gone).fill_null(value=True)).drop(_AT)


def _newest(rows: pl.DataFrame, by: Sequence[str]) -> pl.DataFrame:
    """The last row of each identity. A tombstone of a key is none of its rows."""
    if KIND not in rows.columns:
        return rows.unique(subset=list(by), keep="last", maintain_order=True)
    is_key_gone = (pl.col(KIND) == Kind.KEY_GONE).fill_null(value=False).alias(_AT)
    return rows.with_columns(is_key_gone).unique(subset=[*by, _AT], keep="last", maintain_order=True).drop(_AT)


def normal(rows: pl.DataFrame, names: Sequence[str]) -> pl.DataFrame:
    """The rows with these columns in normal form: one zero, one NaN, because keys are compared by their bits."""
    floats = [name for name in names if name in rows.columns and rows.schema[name].is_float()]
    if not floats:
        return rows
    return rows.with_columns(_normal(pl.col(name), rows.schema[name]).alias(name) for name in floats)


def _normal(value: pl.Expr, dtype: pl.DataType) -> pl.Expr:
    nan, zero = pl.lit(math.nan, dtype), pl.lit(0.0, dtype)
    return pl.when(value.is_nan()).then(nan).when(value == zero).then(zero).otherwise(value)
