"""Inline rows of a pipeline file or a test as typed columns. They are few, so values are converted one by one."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal as ExactNumber
from typing import Any

import polars as pl

from headrace.core.errors import UserError
from headrace.core.types import DataType, Decimal, ListOf, Primitive, Schema, Struct, Timestamp, polars_type

TIMESTAMP_KEY = "$timestamp"
PARTITION_KEY = "$partition"

_SCALE_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_BOOLS = {"true": True, "false": False}
_FROM_TEXT: dict[Primitive, Callable[[str], Any]] = {
    Primitive.BOOL: lambda text: _BOOLS[text.lower()],
    Primitive.INT32: int,
    Primitive.INT64: int,
    Primitive.FLOAT32: float,
    Primitive.FLOAT64: float,
    Primitive.STRING: str,
    Primitive.BINARY: base64.b64decode,
    Primitive.DATE: date.fromisoformat,
}


def typed_rows(rows: Sequence[Mapping[str, Any]], schema: Schema, where: str) -> pl.DataFrame:
    """Rows as a frame of the schema; a missing column is NULL. Raises UserError with the row's number (from 1)."""
    columns: dict[str, list[Any]] = {name: [] for name in schema.names}
    for number, row in enumerate(rows, start=1):
        for name in row:
            if name not in schema and name not in (TIMESTAMP_KEY, PARTITION_KEY):
                raise UserError(f"{where}: row {number} has {name!r}, which is no column of the schema ({schema})")
        for item in schema:
            value = row.get(item.name)
            if value is None and not item.nullable:
                raise UserError(f"{where}: row {number}: column {item.name!r} is not null and has no value")
            try:
                columns[item.name].append(typed_value(value, item.type))
            except (ValueError, KeyError, ArithmeticError) as cause:
                raise UserError(f"{where}: row {number}: {value!r} is no {item.type} ({item.name})") from cause
    return pl.DataFrame(
        {name: pl.Series(name, values, dtype=polars_type(schema.field(name).type)) for name, values in columns.items()},
    )


def typed_value(value: Any, dtype: DataType) -> Any:
    """A value as the Python value that polars accepts for `dtype`; text is parsed by the type."""
    if value is None:
        return None
    match dtype:
        case ListOf(inner):
            return [typed_value(item, inner) for item in value]
        case Struct(fields):
            return {item.name: typed_value(value.get(item.name), item.type) for item in fields}
        case Timestamp(unit):
            return _moment(value, unit)
        case Decimal():
            return ExactNumber(str(value))
        case Primitive():
            return _FROM_TEXT[dtype](value) if isinstance(value, str) else value


def _moment(value: Any, unit: str) -> datetime:
    if isinstance(value, datetime):
        return value if value.tzinfo else value.replace(tzinfo=UTC)
    text = str(value)
    if text.lstrip("-").isdigit():
        return datetime.fromtimestamp(int(text) * _SCALE_US[unit] / 1_000_000, UTC)
    return _moment(datetime.fromisoformat(text), unit)


def epoch_ms(value: Any) -> int:
    """A row's `$timestamp` (RFC 3339 or epoch ms) as epoch ms."""
    return int(_moment(value, "ms").timestamp() * 1000)
