"""Rows that wait to be sent together: bounded in rows, in bytes, and in waiting time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import polars as pl

from headrace.connect.row_check import Refusal, Refused
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.batch import OP, concat_batches, hidden_columns
from headrace_connectors.sql.tables.target import DELETE

ROWS_MAX = 50_000
BYTES_MAX = 32 << 20
LINGER_S = 1.0
"""At low rates, rows are sent when the next ones arrive after this time, or at the barrier."""


class RowBuffer:
    """Buffers the columns `names`, and `DELETE`.

    whole   and all hidden columns, for a row that is refused later
    """

    def __init__(self, names: Sequence[str], *, whole: bool) -> None:
        self._names, self._whole = list(names), whole
        self._frames: list[pl.DataFrame] = []
        self._rows = 0
        self._bytes = 0
        self._since = 0.0

    def add(self, batch: SinkBatch) -> None:
        """Adds the rows of a batch."""
        if not len(batch):
            return
        deletes = pl.col(OP).fill_null(value=False) if OP in batch.rows.columns else pl.lit(value=False)
        hidden = hidden_columns(batch.rows) if self._whole else []
        frame = batch.rows.select(*self._names, *hidden, deletes.alias(DELETE))
        if not self._frames:
            self._since = time.monotonic()
        self._frames.append(frame)
        self._rows += frame.height
        self._bytes += int(frame.estimated_size())

    @property
    def is_due(self) -> bool:
        """Whether the rows should be sent now."""
        full = self._rows >= ROWS_MAX or self._bytes >= BYTES_MAX
        return full or (self._rows > 0 and time.monotonic() - self._since >= LINGER_S)

    def taken(self) -> pl.DataFrame:
        """Removes and returns all rows, in order."""
        rows = concat_batches(self._frames) if self._frames else pl.DataFrame()
        self._frames.clear()
        self._rows = self._bytes = 0
        return rows


def with_keys(context: SinkContext, rows: pl.DataFrame, key: Sequence[str], *, dialect: str) -> pl.DataFrame:
    """The rows without those that `null_keys` names, which are refused."""
    refused = null_keys(rows, key, dialect=dialect)
    refuse(context, rows, refused)
    return without(rows, refused)


def refuse(context: SinkContext, rows: pl.DataFrame, refused: Refused) -> None:
    """Passes on buffered rows that are refused."""
    context.refuse_rows(rows.drop(DELETE), refused)


def without(rows: pl.DataFrame, refused: Refused) -> pl.DataFrame:
    """The rows that are not refused."""
    return rows.filter(~pl.int_range(rows.height, eager=True).is_in(list(refused))) if refused else rows


def null_keys(rows: pl.DataFrame, key: Sequence[str], *, dialect: str) -> Refused:
    """The rows with a NULL in their key: no unique constraint would ever match it. SQLite stores NaN as NULL; for
    PostgreSQL all NaN are one value."""
    found: dict[int, Refusal] = {}
    for name in key:
        for row in rows.select(_is_null(rows, name, dialect)).to_series().arg_true():
            what = "NULL" if rows.get_column(name)[row] is None else "NaN, which SQLite stores as NULL"
            why = f"a row has no key ({name} is {what}), and mode: upsert needs one"
            found.setdefault(row, Refusal(why, "filter such rows out before the sink, or write with mode: append"))
    return found


def _is_null(rows: pl.DataFrame, name: str, dialect: str) -> pl.Expr:
    value = pl.col(name)
    if dialect == "sqlite" and rows.schema[name].is_float():
        return value.is_null() | value.is_nan().fill_null(value=False)
    return value.is_null()
