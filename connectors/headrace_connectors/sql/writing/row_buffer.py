"""Rows that wait to be sent together: bounded in rows, in bytes, and in waiting time."""

from __future__ import annotations

import time
from collections.abc import Sequence

import polars as pl

from headrace.connect.row_check import refused_row
from headrace.connect.sink import SinkBatch
from headrace.core.batch import OP
from headrace_connectors.sql.tables.target import DELETE

ROWS_MAX = 50_000
BYTES_MAX = 32 << 20
LINGER_S = 1.0
"""At low rates, rows are sent when the next ones arrive after this time, or at the barrier."""


class RowBuffer:
    """Buffers the columns `names`, and `DELETE`."""

    def __init__(self, names: Sequence[str]) -> None:
        self._names = list(names)
        self._frames: list[pl.DataFrame] = []
        self._rows = 0
        self._bytes = 0
        self._since = 0.0

    def add(self, batch: SinkBatch) -> None:
        """Adds the rows of a batch."""
        if not len(batch):
            return
        deletes = pl.col(OP).fill_null(value=False) if OP in batch.rows.columns else pl.lit(value=False)
        frame = batch.rows.select(*self._names, deletes.alias(DELETE))
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
        rows = pl.concat(self._frames) if self._frames else pl.DataFrame()
        self._frames.clear()
        self._rows = self._bytes = 0
        return rows


def refuse_null_keys(rows: pl.DataFrame, key: Sequence[str], node: str, *, dialect: str) -> None:
    """Raises DataError for the first row with a NULL in its key: no unique constraint would ever match it. SQLite
    stores NaN as NULL; for PostgreSQL all NaN are one value."""
    lacks = {name: _is_null(rows, name, dialect) for name in key}
    lacking = rows.filter(pl.any_horizontal(lacks.values()))
    if lacking.height:
        column = next(name for name in key if lacking[:1].select(lacks[name]).item())
        value = lacking.get_column(column)[0]
        what = "NULL" if value is None else "NaN, which SQLite stores as NULL"
        raise refused_row(
            node,
            f"a row has no key ({column} is {what}), and mode: upsert needs one",
            lacking[0],
            "filter such rows out before the sink, or write with mode: append",
        )


def _is_null(rows: pl.DataFrame, name: str, dialect: str) -> pl.Expr:
    value = pl.col(name)
    if dialect == "sqlite" and rows.schema[name].is_float():
        return value.is_null() | value.is_nan().fill_null(value=False)
    return value.is_null()
