"""Every type of ours comes back from the table as it was, whatever it holds."""

from __future__ import annotations

import json
import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import polars as pl
import pytest

from headrace.connect.sink import SinkBatch, SinkContext
from headrace.core.errors import DataError
from headrace.core.types import schema_of
from headrace_connectors.sql import SqlSinkConfig
from support.storage.sql_tables import Tables

DELIVERIES = ["at-least-once", "exactly-once"]
ALL = schema_of(
    {
        "id": "int32 not null",
        "flag": "bool",
        "whole": "int64",
        "small": "float32",
        "big": "float64",
        "exact": "decimal(38,10)",
        'odd "name", 100%:x': "string",
        "raw": "binary",
        "day": "date",
        "at": "timestamp",
        "list": "[int64]",
        "inner": "{a: string, b: timestamp, c: decimal(5,2)}",
    }
)
MOMENT = datetime(2024, 2, 29, 23, 59, 59, 123456, UTC)
EARLY = datetime(1901, 1, 1, 0, 0, 0, 1, UTC)
INNER = {"a": 'q"', "b": MOMENT, "c": Decimal("1.50")}
LARGE = Decimal("1234567890123456789012345678.0123456789")
TEXT = "a,b\n\"c\"\t\\N 'é' 日本"
NOTHING = {"a": None, "b": None, "c": None}
ROWS: list[tuple[Any, ...]] = [
    (1, True, 2**63 - 1, 0.1, 0.1, LARGE, "", b"", date(2024, 2, 29), MOMENT, [1, None], INNER),
    (2, False, -(2**63), 3.4e38, 5e-324, Decimal("-1e-10"), TEXT, bytes(range(256)), date(1, 1, 1), EARLY, [], None),
    (3, None, None, None, None, None, None, None, None, None, None, None),
    (4, None, 0, -0.0, math.inf, Decimal(0), "\\.", b"\\x00", date(9999, 12, 31), MOMENT, None, NOTHING),
]


def read_back(tables: Tables) -> list[tuple[Any, ...]]:
    return sorted((tuple(_value(item) for item in row) for row in tables.rows("results")), key=lambda row: int(row[0]))


def _value(value: Any) -> Any:
    """Values of a driver in one form: times as ISO texts, documents as they are."""
    if isinstance(value, datetime):
        return value.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, dict | list):
        return json.dumps(value, separators=(",", ":"))
    return value


def expected(dialect: str) -> list[tuple[Any, ...]]:
    inner = '{"a":"q\\"","b":"2024-02-29T23:59:59.123456Z","c":"1.50"}'
    nothing = '{"a":null,"b":null,"c":null}'
    exact: list[Any] = [row[5] for row in ROWS]
    if dialect == "sqlite":
        exact = [None if value is None else f"{value:.10f}" for value in exact]
    documents = [("[1,null]", inner), ("[]", None), (None, None), (None, nothing)]
    single = [row[3] if row[3] is None else pytest.approx(row[3], rel=1e-6) for row in ROWS]
    return [
        (*row[:3], few, row[4], number, *row[6:8], *(_value(item) for item in row[8:10]), *document)
        for row, few, number, document in zip(ROWS, single, exact, documents, strict=True)
    ]


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_every_type_comes_back(tables: Tables, delivery: str, mode: str) -> None:
    sink = tables.sink(ALL, delivery=delivery, mode=mode, key=["id"] if mode == "upsert" else None)
    writer = sink.writer()
    writer.write(sink.batch(ROWS))
    committables = writer.flush(1)
    if sink.config.exactly_once:
        sink.commit(committables)
    writer.close()
    # a second look finds the table that it made as it should be
    sink.prepared()

    assert read_back(tables) == expected(tables.dialect)


def test_nan_comes_back_from_postgresql(postgres_tables: Tables) -> None:
    sink = postgres_tables.sink(schema_of({"x": "float64", "y": "float32"}))
    writer = sink.writer()
    writer.write(sink.batch([(math.nan, math.nan), (-math.inf, math.inf), (None, None)]))
    writer.flush(1)
    writer.close()

    assert [str(value) for row in postgres_tables.rows("results") for value in row] == [
        "nan", "nan", "-inf", "inf", "None", "None",
    ]  # fmt: skip


def test_a_table_of_one_column_takes_what_ends_a_copy(tables: Tables) -> None:
    sink = tables.sink(schema_of({"text": "string"}))
    writer = sink.writer()
    writer.write(sink.batch([("\\.",), (None,), ("",), ("after",)]))
    writer.flush(1)
    writer.close()

    assert tables.rows("results") == [("\\.",), (None,), ("",), ("after",)]


def test_a_table_in_another_schema_with_columns_of_its_own(postgres_tables: Tables) -> None:
    postgres_tables.run(
        "CREATE SCHEMA other",
        "CREATE TABLE other.results (id bigserial PRIMARY KEY, n numeric(20, 0), text varchar(3) UNIQUE, "
        "at timestamp, seen timestamptz DEFAULT now(), doc json)",
    )
    schema = schema_of({"text": "string", "n": "int64", "at": "timestamp", "doc": "[string]"})
    for delivery in DELIVERIES:
        for mode in ("append", "upsert"):
            postgres_tables.run("DELETE FROM other.results")
            key = ["text"] if mode == "upsert" else None
            sink = postgres_tables.sink(
                schema, "other.results", delivery=delivery, mode=mode, key=key, create_table=False
            )
            writer = sink.writer()
            writer.write(sink.batch([("a", 1, MOMENT, ["x"]), ("b", 2, None, None)]))
            committables = writer.flush(1)
            writer.close()
            if sink.config.exactly_once:
                sink.commit(committables)
            assert sorted(postgres_tables.rows("other.results", "text, n, at, doc")) == [
                ("a", 1, MOMENT.replace(tzinfo=None), ["x"]),
                ("b", 2, None, None),
            ]
    assert postgres_tables.count("other.headrace_epochs") == 2


@pytest.mark.parametrize("delivery", DELIVERIES)
@pytest.mark.parametrize("mode", ["append", "upsert"])
def test_a_row_that_the_table_refuses_is_named(tables: Tables, delivery: str, mode: str) -> None:
    tables.run("CREATE TABLE results (k TEXT PRIMARY KEY, n BIGINT CHECK (n < 10))")
    key = ["k"] if mode == "upsert" else None
    sink = tables.sink(schema_of({"k": "string", "n": "int64"}), delivery=delivery, mode=mode, key=key)
    writer = sink.writer()
    writer.write(sink.batch([("good", 1), ("worse", 77)]))

    with pytest.raises(DataError, match="refuses a row") as raised:
        committables = writer.flush(1)
        sink.commit(committables)
    writer.close()

    named = tables.dialect == "postgresql" or (delivery, mode) == ("at-least-once", "append")
    assert ("worse" in str(raised.value) and "77" in str(raised.value)) == named
    assert raised.value.remedy
    assert tables.count("results") == 0


def test_a_key_that_is_null_is_refused(tables: Tables) -> None:
    sink = tables.sink(schema_of({"k": "string", "n": "int64"}), mode="upsert", key=["k"])
    writer = sink.writer()
    writer.write(sink.batch([("a", 1), (None, 5)]))
    with pytest.raises(DataError, match=r"a row has no key.*'n': 5"):
        writer.flush(1)
    writer.close()


def test_a_text_that_postgresql_cannot_hold_is_told(postgres_tables: Tables) -> None:
    sink = postgres_tables.sink(schema_of({"text": "string"}))
    writer = sink.writer()
    writer.write(sink.batch([("zero \0 byte",)]))
    with pytest.raises(DataError, match=r"invalid byte sequence.*0x00"):
        writer.flush(1)
    writer.close()


BORDERS = [
    ("at", "-719162", True),
    ("at", "-719163", False),
    ("at", "2932896", True),
    ("at", "2932897", False),
    ("day", "-719163", False),
    ("day", "2932896", True),
    ("day", "2932897", False),
    ("text", "a\0b", False),
    ("text", "a\nb", True),
]


@pytest.mark.parametrize(("column", "value", "fits"), BORDERS)
def test_what_the_database_has_no_form_for_is_known_beforehand(
    tables: Tables, column: str, value: str, fits: bool
) -> None:
    schema = schema_of({"at": "timestamp", "day": "date", "text": "string", "texts": "[string]"})
    days = None if column == "text" else int(value)
    row = {
        "at": days * 86_400_000_000 if days is not None and column == "at" else None,
        "day": days if column == "day" else None,
        "text": value if column == "text" else None,
        "texts": [value] if column == "text" else None,
    }
    physical = pl.Schema({"at": pl.Int64(), "day": pl.Int32(), "text": pl.String(), "texts": pl.List(pl.String)})
    rows = pl.DataFrame([row], physical).cast(pl.Schema(schema.polars()))
    config = SqlSinkConfig.model_validate({"url": tables.url, "table": "borders", "create_table": True})
    context = SinkContext("j", "out", 0, 1, schema)
    config.prepare(context)
    check = config.open_check(context, None)
    assert check is not None
    writer = config.open_writer(context)
    if fits or tables.url.startswith("sqlite"):
        assert not check.refused(rows)
        writer.write(SinkBatch(rows))
        writer.flush(1)
    else:
        assert f"column {column} holds" in check.refused(rows)[0].why
        with pytest.raises(DataError):
            writer.write(SinkBatch(rows))
            writer.flush(1)
    writer.close()
