"""Which rows a table could not take, as far as they tell without it: those without a key in upsert mode, texts and
times that the database has no form for. What the table's own constraints say is not known here."""

from __future__ import annotations

import polars as pl

from headrace.connect.row_check import RowCheck, ValueCheck, columns_holding
from headrace.connect.sink import SinkContext
from headrace.core.types import DataType, Primitive, Timestamp
from headrace_connectors.sql.config import SqlSinkConfig
from headrace_connectors.sql.row_buffer import refuse_null_keys

_DAY_US = 86_400 * 1_000_000
_YEAR_1_DAY, _YEAR_10000_DAY = -719_162, 2_932_897
_SQLITE_DAYS = (-96_465_292, 95_026_237)
"""What text can be made of at all: years -263143 to 262142, in days since the epoch; the second one is out."""


class SqlRowCheck:
    """`connect.row_check.RowCheck` for tables."""

    def __init__(self, config: SqlSinkConfig, context: SinkContext) -> None:
        self._key, self._node = config.key, context.node
        self._checks = _value_checks(config, context)

    def require(self, rows: pl.DataFrame) -> None:
        """See RowCheck."""
        if self._key is not None:
            refuse_null_keys(rows, self._key, self._node)
        for check in self._checks:
            check.require(rows)


def _value_checks(config: SqlSinkConfig, context: SinkContext) -> list[RowCheck]:
    checks: list[RowCheck] = []
    if times := columns_holding(context.schema, _is_time):
        first, end = _SQLITE_DAYS if config.dialect == "sqlite" else (_YEAR_1_DAY, _YEAR_10000_DAY)
        checks.append(
            ValueCheck(
                context.node,
                times,
                lambda values: _outside(values, first, end),
                "holds a time that the database has no form for",
                "filter or correct such rows before the sink; was it made of a number in another unit?",
            )
        )
    texts = columns_holding(context.schema, lambda dtype: dtype is Primitive.STRING)
    if texts and config.dialect == "postgresql":
        checks.append(
            ValueCheck(
                context.node,
                texts,
                _has_nul,
                "holds the character NUL, which no text in PostgreSQL may have",
                "take it out before the sink, or write the column as binary",
            )
        )
    return checks


def _is_time(dtype: DataType) -> bool:
    return isinstance(dtype, Timestamp) or dtype is Primitive.DATE


def _outside(values: pl.Series, first: int, end: int) -> bool:
    if isinstance(values.dtype, pl.Datetime):
        first, end = first * _DAY_US, end * _DAY_US
    elif values.dtype != pl.Date:
        return False
    numbers = values.to_physical()
    least, most = numbers.min(), numbers.max()
    return isinstance(least, int) and isinstance(most, int) and (least < first or most >= end)


def _has_nul(values: pl.Series) -> bool:
    return values.dtype == pl.String and bool(values.str.contains("\0", literal=True).any())
