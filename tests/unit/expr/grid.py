"""A small frame of awkward values, and what headrace and DuckDB make of an expression over it, row by row."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache

import duckdb
import polars as pl

from headrace.core.types import Field, Primitive, Schema, Struct, schema_of
from headrace.expr.compiled import CompiledScalar
from headrace.expr.compiler import compile_scalar

FAILED = "failed"
INT64_MAX, INT64_MIN = (1 << 63) - 1, -(1 << 63)
INT32_MAX, INT32_MIN = (1 << 31) - 1, -(1 << 31)
NAN, INF = math.nan, math.inf

_PLAIN: Schema = schema_of(
    {
        "i": "int32",
        "j": "int32",
        "a": "int64",
        "b": "int64",
        "f": "float64",
        "g": "float64",
        "h": "float32",
        "s": "string",
        "p": "string",
        "num": "string",
        "t": "timestamp",
        "u": "timestamp",
        "d": "date",
        "e": "date",
        "ok": "bool",
        "no": "bool",
        "n": "decimal(10,2)",
        "m": "decimal(12,4)",
        "w": "decimal(38,2)",
        "l": "[int64]",
        "x": "binary",
    }
)
_STRUCT = Struct((Field("q", Primitive.INT64), Field("r", Primitive.STRING)))
SCHEMA = Schema((*_PLAIN, Field("st", _STRUCT)))


def stamp(text: str) -> datetime:
    return datetime.fromisoformat(text).replace(tzinfo=UTC)


_T1, _T2, _T3 = stamp("2013-01-31 05:06:07.123456"), stamp("1969-12-31 23:59:59.999999"), stamp("2012-02-29 00:00:00")
_T4, _T5 = stamp("2400-12-31 23:59:59"), stamp("2013-04-01 12:00:00.5")
_COLUMNS: dict[str, list[object]] = {
    "i": [0, 1, -7, 7, INT32_MAX, INT32_MIN, None, 3, -1, 100, 2, None],
    "j": [0, 2, 2, -2, 1, -1, 5, None, -1, 3, 7, None],
    "a": [0, 1, -7, 7, INT64_MAX, INT64_MIN, None, 3, -1, 100, 4_000_000_000, None],
    "b": [0, 2, 2, -2, 1, -1, 5, None, INT64_MIN, 3, 4_000_000_000, None],
    "f": [0.0, -0.0, 1.5, -2.5, NAN, INF, -INF, None, 0.1, 1e300, 1000.0, None],
    "g": [-0.0, 2.0, -1.5, 0.5, NAN, 1.0, -INF, 3.0, 0.0, 1e-300, 0.333, None],
    "h": [0.0, -0.0, 1.5, -2.5, NAN, INF, -INF, None, 0.1, 1e30, 1000.0, None],
    "s": ["", "a", "héllo wörld", " pad ", "ABC", "a,b,,c", "xx%y_z", None, "b", "axbxc", "aaa", None],
    "p": ["", "a", "wör", "x", "BC", ",", "%", "b", None, "xb", "aa", None],
    "num": ["0", "-1", " 12 ", "", "abc", "1.5", "9223372036854775808", None, "true", "nan", "2013-01-31", None],
    "t": [_T1, _T2, _T3, _T4, _T5, _T1, None, _T3, _T2, _T1, _T5, None],
    "u": [_T2, _T2, _T4, _T3, _T1, _T1, _T3, None, _T1, _T5, _T4, None],
    "d": [item and item.date() for item in (_T1, _T2, _T3, _T4, _T5, None, _T1, _T3, _T2, _T1, _T5, None)],
    "e": [item and item.date() for item in (_T2, _T2, _T4, _T3, _T1, _T1, None, _T5, _T1, _T5, _T4, None)],
    "ok": [True, False, None, True, False, None, True, False, None, True, False, None],
    "no": [True, True, True, False, False, False, None, None, None, True, False, None],
    "n": [
        Decimal(text) if text else None
        for text in ("0", "1.50", "-2.55", "99999999.99", "-99999999.99", "", "0.05", "3", "-1.45", "2.5", "7", "")
    ],
    "m": [
        Decimal(text) if text else None
        for text in ("0", "2", "0.0001", "1.5", "-3", "1", "", "99999999.9999", "0.5", "-2.5", "7", "")
    ],
    "w": [
        Decimal(text) if text else None
        for text in ("0", "9" * 36 + ".99", "-" + "9" * 36 + ".99", "1.55", "", "2", "3", "4", "5.25", "6", "7", "")
    ],
    "l": [[], [1], [1, 2, 3], [None], None, [7, None, -7], [0], [3, 3], [INT64_MAX], [5, 4], [2], None],
    "x": [b"", b"a", b"\xff\x00", "é".encode(), b"ABC", None, b"1", b"2", b"3", b"4", b"5", None],
    "st": [{"q": index, "r": "z"} if index % 3 else {"q": None, "r": None} for index in range(11)] + [None],
}
HEIGHT = len(_COLUMNS["i"])
TS_MS = [1_359_608_767_123 + index for index in range(HEIGHT)]


@cache
def frame() -> pl.DataFrame:
    """The rows, with `__ts`."""
    made = pl.DataFrame(_COLUMNS, schema=SCHEMA.polars(), strict=False)
    return made.with_columns(pl.Series("__ts", TS_MS, dtype=pl.Int64))


def evaluate(compiled: CompiledScalar, rows: pl.DataFrame) -> list[object]:
    """A value or FAILED for each row; asserts that the result has the declared type and the frame's height."""
    fails = pl.lit(value=False) if compiled.fails is None else compiled.fails
    height = pl.int_range(pl.len()).alias("row")
    made = rows.select(compiled.value.alias("value"), height)
    masked = rows.select(fails.alias("fails"), height)
    assert made.schema["value"] == rows.clear().select(compiled.value.alias("v")).schema["v"]
    if compiled.fails is not None and rows.height:
        alone = rows.select(compiled.fails.alias("fails"))["fails"]
        assert alone.dtype == pl.Boolean
        assert alone.null_count() == 0
        assert len(alone) == rows.height
    assert rows.select(compiled.value.alias("value")).height == rows.height
    pairs = zip(made["value"].to_list(), masked["fails"].to_list(), strict=True)
    return [FAILED if failed else value for value, failed in pairs]


def headrace(text: str, rows: pl.DataFrame | None = None) -> list[object]:
    """What headrace makes of an expression over the rows."""
    return evaluate(compile_scalar(text, SCHEMA), frame() if rows is None else rows)


@dataclass(frozen=True)
class Oracle:
    """DuckDB over the same rows. Timestamps are naive there, and UTC."""

    connection: duckdb.DuckDBPyConnection

    def values(self, text: str) -> list[object]:
        """A value or FAILED for each row."""
        query = f"select {text} as value from grid order by row"
        try:
            return self._fetch(query)
        except duckdb.Error:
            return [self._one(text, row) for row in range(HEIGHT)]

    def _one(self, text: str, row: int) -> object:
        try:
            return self._fetch(f"select {text} as value from (select * from grid where row = {row})")[0]
        except (duckdb.ConversionException, duckdb.OutOfRangeException, duckdb.InvalidInputException):
            return FAILED

    def _fetch(self, query: str) -> list[object]:
        return [row[0] for row in self.connection.execute(query).fetchall()]


@cache
def oracle() -> Oracle:
    connection = duckdb.connect()
    connection.execute("set timezone = 'UTC'")
    naive = frame().with_row_index("row").with_columns(pl.col("t", "u").dt.replace_time_zone(None))
    connection.register("source", naive.to_arrow())
    connection.execute("create table grid as select * from source")
    connection.unregister("source")
    return Oracle(connection)


def same(left: object, right: object) -> bool:
    """Equal values: NaN equals NaN, floats to 13 digits, times without zone, lists element by element."""
    if isinstance(left, datetime) and isinstance(right, datetime):
        return left.replace(tzinfo=None) == right.replace(tzinfo=None)
    if isinstance(left, date) and isinstance(right, date):
        return left == right
    if isinstance(left, Sequence) and isinstance(right, Sequence) and not isinstance(left, str | bytes):
        return len(left) == len(right) and all(same(one, two) for one, two in zip(left, right, strict=True))
    if isinstance(left, float) and isinstance(right, float):
        return (math.isnan(left) and math.isnan(right)) or left == right or math.isclose(left, right, rel_tol=1e-13)
    return type(left) is type(right) and left == right


def differences(ours: str, theirs: str) -> list[str]:
    """Rows in which the two do not agree, described."""
    pairs = zip(headrace(ours), oracle().values(theirs), strict=True)
    return [
        f"row {row}: {ours} is {one!r}, DuckDB has {two!r}"
        for row, (one, two) in enumerate(pairs)
        if not same(one, two)
    ]
