"""Rows of test cases: each scalar typed by its column, quoted or not."""

from __future__ import annotations

import base64
import binascii
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal as ExactNumber
from decimal import InvalidOperation
from typing import Any, assert_never

from headrace.core.errors import did_you_mean
from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.spec.findings import Finding, FindingsError, collecting, joined, wrong
from headrace.spec.wording import kind_of

TIMESTAMP_KEY = "$timestamp"
"""The record's timestamp: RFC 3339 or epoch ms; parsed to epoch ms."""
PARTITION_KEY = "$partition"
"""The source partition of the row; default 0."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNIT_US = {"s": 1_000_000, "ms": 1_000, "us": 1}
_TRUE, _FALSE = ("true", "yes", "on"), ("false", "no", "off")
_INT_BITS = {Primitive.INT32: 31, Primitive.INT64: 63}
_FLOAT_MAX = {Primitive.FLOAT32: 3.4028234663852886e38, Primitive.FLOAT64: sys.float_info.max}


def row_values(row: Mapping[str, Any], schema: Schema, also: Sequence[str] = ()) -> dict[str, Any]:
    """The row with every column of `schema`, as Python values; an omitted column is None.

    `$timestamp` (epoch ms) and `$partition` are returned as ints if present; columns in `also` (metadata) unchanged.
    Raises FindingsError with paths inside the row.
    """
    findings: list[Finding] = []
    values: dict[str, Any] = {}
    for key in row:
        if key not in schema and key not in also and key not in (TIMESTAMP_KEY, PARTITION_KEY):
            remedy = joined(did_you_mean(key, schema.names), f"columns: {', '.join(schema.names)}")
            findings.append(Finding(f"unknown column {key!r}", remedy, (key,), on_key=True))
    for item in schema:
        with collecting(findings, *((item.name,) if item.name in row else ())):
            values[item.name] = _field_value(row.get(item.name), item)
    for key in (name for name in also if name in row):
        values[key] = row[key]
    with collecting(findings, TIMESTAMP_KEY):
        if row.get(TIMESTAMP_KEY) is not None:
            values[TIMESTAMP_KEY] = int((_timestamp(row[TIMESTAMP_KEY], "ms") - _EPOCH) / timedelta(milliseconds=1))
    with collecting(findings, PARTITION_KEY):
        if row.get(PARTITION_KEY) is not None:
            values[PARTITION_KEY] = _whole(row[PARTITION_KEY], 31)
    if findings:
        raise FindingsError(findings)
    return values


def _field_value(value: Any, item: Field) -> Any:
    if value is None:
        if not item.nullable:
            raise wrong(f"column {item.name!r} is not null and has no value")
        return None
    return typed_value(value, item.type)


def typed_value(value: Any, dtype: DataType) -> Any:
    """Text (or a Python value) as a value of `dtype`; None stays None. Raises FindingsError.

    bool, int, float, str, bytes (written as base64), Decimal, date, datetime in UTC, list, dict.
    """
    if value is None:
        return None
    match dtype:
        case Primitive():
            return _primitive(value, dtype)
        case Decimal(precision, scale):
            return _decimal(value, precision, scale)
        case Timestamp(unit):
            return _timestamp(value, unit)
        case ListOf(inner, nullable):
            return _list(value, Field("element", inner, nullable))
        case Struct(fields):
            if not isinstance(value, Mapping):
                raise wrong(f"takes a mapping, not {kind_of(value)}")
            return row_values(value, Schema(fields))
        case _:
            assert_never(dtype)


def _list(value: Any, element: Field) -> list[Any]:
    if not isinstance(value, list | tuple):
        raise wrong(f"takes a list, not {kind_of(value)}")
    findings: list[Finding] = []
    values = []
    for index, item in enumerate(value):
        with collecting(findings, str(index)):
            values.append(_field_value(item, element))
    if findings:
        raise FindingsError(findings)
    return values


def _primitive(value: Any, dtype: Primitive) -> Any:
    match dtype:
        case Primitive.BOOL:
            return _bool(value)
        case Primitive.INT32 | Primitive.INT64:
            return _whole(value, _INT_BITS[dtype])
        case Primitive.FLOAT32 | Primitive.FLOAT64:
            return _number(value, dtype)
        case Primitive.STRING:
            if not isinstance(value, str):
                raise wrong(f"takes text, not {kind_of(value)}")
            return value
        case Primitive.BINARY:
            return _binary(value)
        case Primitive.DATE:
            return _date(value)
        case _:
            assert_never(dtype)


def _bool(value: Any) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and value.lower() in (*_TRUE, *_FALSE):
        return value.lower() in _TRUE
    raise wrong(f"{kind_of(value)} is not true or false")


def _whole(value: Any, bits: int) -> int:
    try:
        number = int(value) if isinstance(value, str) or type(value) is int else None
    except ValueError:
        number = None
    if number is None:
        raise wrong(f"{kind_of(value)} is not a whole number")
    if not -(1 << bits) <= number < 1 << bits:
        raise wrong(f"{number} is out of range of int{bits + 1}")
    return number


def _number(value: Any, dtype: Primitive) -> float:
    if not isinstance(value, str) and type(value) not in (int, float):
        raise wrong(f"{kind_of(value)} is not a number")
    try:
        number = float(value)
    except ValueError as error:
        raise wrong(f"{value!r} is not a number") from error
    except OverflowError as error:
        raise wrong(f"{value} is out of range of {dtype}") from error
    if abs(number) > _FLOAT_MAX[dtype] and "inf" not in str(value).lower():
        raise wrong(f"{value} is out of range of {dtype}")
    return number


def _decimal(value: Any, precision: int, scale: int) -> ExactNumber:
    try:
        number = ExactNumber(value if isinstance(value, int | ExactNumber) else str(value))
    except InvalidOperation as error:
        raise wrong(f"{value!r} is not a number") from error
    if not number.is_finite():
        raise wrong(f"{value!r} is not a finite number")
    scaled = number.scaleb(scale)
    if scaled != scaled.to_integral_value() or abs(scaled) >= 10**precision:
        raise wrong(f"{value} does not fit decimal({precision},{scale})")
    return number


def _binary(value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError, TypeError) as error:
        raise wrong(f"{kind_of(value)} is not base64", "binary columns are written as base64") from error


def _date(value: Any) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    try:
        return date.fromisoformat(value)
    except (TypeError, ValueError) as error:
        raise wrong(f"{kind_of(value)} is not a date", "write it as 2013-01-31") from error


def _timestamp(value: Any, unit: str) -> datetime:
    if isinstance(value, datetime):
        return value.astimezone(UTC) if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        if type(value) is int or (isinstance(value, str) and value.lstrip("-").isdigit()):
            return _EPOCH + timedelta(microseconds=int(value) * _UNIT_US[unit])
        stamp = datetime.fromisoformat(value)
    except (TypeError, ValueError, OverflowError) as error:
        remedy = "write it as 2013-01-01T05:00:00Z, or as an integer"
        raise wrong(f"{kind_of(value)} is not a timestamp", remedy) from error
    return stamp.astimezone(UTC) if stamp.tzinfo else stamp.replace(tzinfo=UTC)
