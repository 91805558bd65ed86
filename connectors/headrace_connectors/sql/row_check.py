"""Rejects rows that a table cannot store, as far as the rows show it: those without a key in upsert mode, texts and
times that the database cannot represent. Does not know the table's own constraints."""

from __future__ import annotations

import polars as pl

from headrace.connect.row_check import Refused, RowCheck, ValueCheck, columns_holding, first_of
from headrace.connect.sink import SinkContext
from headrace.core.time_range import YEAR_1_DAY, YEAR_9999_DAY
from headrace.core.types import Primitive
from headrace.formats.writable_times import TEXT_DAYS, times_check
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.writing.row_buffer import null_keys

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
