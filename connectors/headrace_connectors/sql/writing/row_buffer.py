"""Rows that wait to be sent together: bounded in rows, in bytes, and in waiting time. And rows that a table cannot
store, as far as the rows show it: those without a key in upsert mode, texts and times that the database cannot
represent. Does not know the table's own constraints."""

from __future__ import annotations

import time
from collections.abc import Sequence

import polars as pl

from headrace.connect.row_check import Refusal, Refused, RowCheck, ValueCheck, columns_holding, first_of
from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.batch import OP, concat_batches, hidden_columns
from headrace.core.time_range import YEAR_1_DAY, YEAR_9999_DAY
from headrace.core.types import Primitive
from headrace.formats.writable_times import TEXT_DAYS, times_check
from headrace_connectors.sql.config import SqlSinkSettings
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


_YEARS_1_TO_9999 = (YEAR_1_DAY, YEAR_9999_DAY + 1)
"""First day, and the day after the last one, in days since the epoch."""


class SqlRowCheck:
    """`connect.row_check.RowCheck` for tables."""

    def __init__(self, config: SqlSinkSettings, context: SinkContext) -> None:
        self._key, self._dialect = config.key, config.dialect
        self._checks = _value_checks(config, context)

    def refused(self, rows: pl.DataFrame) -> Refused:
        """See RowCheck."""
        keyless = {} if self._key is None else null_keys(rows, self._key, dialect=self._dialect)
        return first_of((keyless, *(check.refused(rows) for check in self._checks)))


def _value_checks(config: SqlSinkSettings, context: SinkContext) -> list[RowCheck]:
    checks: list[RowCheck] = []
    days = TEXT_DAYS if config.dialect == "sqlite" else _YEARS_1_TO_9999
    times = times_check(context.schema, days=days, why="holds a time that the database has no form for")
    if times is not None:
        checks.append(times)
    texts = columns_holding(context.schema, lambda dtype: dtype is Primitive.STRING)
    if texts and config.dialect == "postgresql":
        checks.append(
            ValueCheck(
                texts,
                _has_nul,
                "holds the character NUL, which no text in PostgreSQL may have",
                "take it out before the sink, or write the column as binary",
            )
        )
    return checks


def _has_nul(values: pl.Series) -> bool:
    return values.dtype == pl.String and bool(values.str.contains("\0", literal=True).any())
