"""Rows of any schema: few different texts, growing numbers, and times ten minutes apart."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as Exact
from typing import assert_never

import polars as pl

from headrace.core.types import DataType, Decimal, ListOf, Primitive, Schema, Struct, Timestamp

TEXTS = 3
BEGIN = datetime(2026, 1, 1, tzinfo=UTC)


def sample_rows(schema: Schema, count: int) -> pl.DataFrame:
    """`count` rows without NULL."""
    columns = {item.name: [_value(item.type, number) for number in range(count)] for item in schema}
    return pl.DataFrame(columns, schema=schema.polars())


def _value(dtype: DataType, number: int) -> object:
    match dtype:
        case Primitive.STRING:
            return f"text-{number % TEXTS}"
        case Primitive.BINARY:
            return f"text-{number % TEXTS}".encode()
        case Primitive.BOOL:
            return number % 2 == 0
        case Primitive.DATE:
            return date(2026, 1, 1) + timedelta(days=number)
        case Primitive.FLOAT32 | Primitive.FLOAT64:
            return number * 1.5
        case Primitive.INT32 | Primitive.INT64:
            return number
        case Timestamp():
            return BEGIN + timedelta(minutes=10 * number)
        case Decimal():
            return Exact(number)
        case ListOf(inner):
            return [_value(inner, number), _value(inner, number + 1)]
        case Struct(fields):
            return {item.name: _value(item.type, number) for item in fields}
        case _:
            assert_never(dtype)
