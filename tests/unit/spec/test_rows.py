"""Rows of test cases: typed by the column, quoted or not."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest

from headrace.core.types import DataType, Field, ListOf, Primitive, Schema, Struct, Timestamp, parse_type
from headrace.spec.findings import FindingsError
from headrace.spec.rows import row_values, typed_value


def typed(value: Any, text: str) -> Any:
    return typed_value(value, parse_type(text)[0])


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        ("true", "bool", True),
        ("No", "bool", False),
        (True, "bool", True),
        ("12", "int32", 12),
        ("-9223372036854775808", "int64", -(1 << 63)),
        (5, "int64", 5),
        ("1", "float64", 1.0),
        ("1e3", "float64", 1000.0),
        ("-inf", "float64", float("-inf")),
        (2, "float32", 2.0),
        ("10", "string", "10"),
        ("", "string", ""),
        ("aGk=", "binary", b"hi"),
        (b"hi", "binary", b"hi"),
        ("2013-01-31", "date", date(2013, 1, 31)),
        ("1.50", "decimal(5,2)", Decimal("1.50")),
        (Decimal("7"), "decimal(5,2)", Decimal(7)),
        ("2013-01-01T05:00:00Z", "timestamp", datetime(2013, 1, 1, 5, tzinfo=UTC)),
        ("2013-01-01T05:00:00", "timestamp", datetime(2013, 1, 1, 5, tzinfo=UTC)),
        ("2013-01-01T05:00:00+01:00", "timestamp", datetime(2013, 1, 1, 4, tzinfo=UTC)),
        ("1000", "timestamp", datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC)),
        ("1000", "timestamp(s)", datetime(1970, 1, 1, 0, 16, 40, tzinfo=UTC)),
        (None, "int64", None),
        (["1", None], "[int64]", [1, None]),
    ],
)
def test_typed(value: Any, dtype: str, expected: Any) -> None:
    result = typed(value, dtype)
    assert result == expected
    assert type(result) is type(expected)


@pytest.mark.parametrize(
    ("value", "dtype", "message"),
    [
        ("maybe", "bool", "'maybe' is not true or false"),
        ("1.0", "int64", "'1.0' is not a whole number"),
        (1.0, "int64", "1.0 is not a whole number"),
        (True, "int64", "True is not a whole number"),
        ("2147483648", "int32", "2147483648 is out of range of int32"),
        ("x", "float64", "'x' is not a number"),
        ("-1e400", "float64", "-1e400 is out of range of float64"),
        (10**400, "float64", "is out of range of float64"),
        ("3.5e38", "float32", "3.5e38 is out of range of float32"),
        (1, "string", "takes text, not 1"),
        ("%", "binary", "'%' is not base64"),
        ("2013-13-01", "date", "'2013-13-01' is not a date"),
        ("1.505", "decimal(5,2)", "1.505 does not fit decimal(5,2)"),
        ("1000", "decimal(5,2)", "1000 does not fit decimal(5,2)"),
        ("NaN", "decimal(5,2)", "'NaN' is not a finite number"),
        ("x", "decimal(5,2)", "'x' is not a number"),
        ("noon", "timestamp", "'noon' is not a timestamp"),
        ("9" * 30, "timestamp", "is not a timestamp"),
        ("x", "[int64]", "takes a list, not 'x'"),
        ([None], "[int64 not null]", "is not null and has no value"),
    ],
)
def test_refused(value: Any, dtype: str, message: str) -> None:
    with pytest.raises(FindingsError) as raised:
        typed(value, dtype)
    assert message in str(raised.value)


PLANE: DataType = Struct((Field("tail", Primitive.STRING), Field("seats", ListOf(Primitive.INT32), nullable=False)))
SCHEMA = Schema((Field("x", Primitive.INT64, nullable=False), Field("t", Timestamp()), Field("plane", PLANE)))


def test_a_row() -> None:
    row = {"x": "1", "plane": {"tail": "N1", "seats": ["7"]}, "$partition": "3", "$timestamp": "1970-01-01T00:00:01Z"}
    assert row_values(row, SCHEMA) == {
        "x": 1,
        "t": None,
        "plane": {"tail": "N1", "seats": [7]},
        "$timestamp": 1000,
        "$partition": 3,
    }
    assert row_values({"x": 1, "k": "abc"}, SCHEMA, also=("k",))["k"] == "abc"


def test_a_wrong_row_names_every_place() -> None:
    with pytest.raises(FindingsError) as raised:
        row_values({"x": None, "tt": "1", "plane": {"tail": "N1"}, "$partition": "p", "$timestamp": "q"}, SCHEMA)
    assert [(finding.path, finding.message) for finding in raised.value.findings] == [
        (("tt",), "unknown column 'tt'"),
        (("x",), "column 'x' is not null and has no value"),
        (("plane",), "column 'seats' is not null and has no value"),
        (("$timestamp",), "'q' is not a timestamp"),
        (("$partition",), "'p' is not a whole number"),
    ]
