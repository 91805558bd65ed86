"""What the check of the text formats refuses is what their encoders cannot write."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.connect.registry import format_named
from headrace.connect.row_check import EncodeCheck
from headrace.core.errors import DataError
from headrace.core.types import Schema, schema_of

DAY_US = 86_400_000_000
DATES = (-96_465_292, 95_026_236)
TIMES = (DATES[0] * DAY_US, (DATES[1] + 1) * DAY_US - 1)


def encodes(name: str, schema: Schema, rows: pl.DataFrame) -> bool:
    try:
        format_named(name).config().open_encoder(schema).encode(rows)
    except pl.exceptions.PanicException:
        return False
    return True


def accepts(name: str, schema: Schema, rows: pl.DataFrame) -> bool:
    check = format_named(name).config().open_check(schema)
    assert check is not None
    refused = check.refused(rows)
    assert all("column t holds a time that cannot be written" in each.why for each in refused.values())
    return not refused


@pytest.mark.parametrize("name", ["json", "csv"])
@pytest.mark.parametrize(("dtype", "edges"), [("date", DATES), ("timestamp", TIMES)])
def test_the_calendar_has_edges(name: str, dtype: str, edges: tuple[int, int]) -> None:
    schema = schema_of({"t": dtype})
    low, high = edges
    for value, fits in ((low - 1, False), (low, True), (0, True), (high, True), (high + 1, False)):
        rows = pl.DataFrame({"t": pl.Series([0, value, None], dtype=pl.Int64)}).cast(
            {"t": pl.Int32} if dtype == "date" else {}
        )
        rows = rows.cast(pl.Schema(schema.polars()))
        assert accepts(name, schema, rows) is encodes(name, schema, rows) is fits


def test_times_inside_of_lists_and_structs() -> None:
    schema = schema_of({"t": "[date]", "n": "int64"})
    for day, fits in ((0, True), (DATES[1] + 1, False)):
        days = pl.Series([[day], [], None], dtype=pl.List(pl.Int32)).cast(pl.List(pl.Date))
        rows = pl.DataFrame({"t": days, "n": [1, 2, 3]})
        assert accepts("json", schema, rows) is encodes("json", schema, rows) is fits


@pytest.mark.parametrize(
    ("name", "columns"),
    [("json", {"a": "string", "x": "float64"}), ("raw", {"a": "string"}), ("parquet", {"t": "date"})],
)
def test_where_every_row_can_be_written_nothing_is_looked_at(name: str, columns: dict[str, str]) -> None:
    assert format_named(name).config().open_check(schema_of(columns)) is None


def test_a_format_that_does_not_say_is_tried() -> None:
    def encode(rows: pl.DataFrame) -> object:
        raise DataError(f"no {rows.to_dicts()}")

    refused = EncodeCheck(encode, ("a",)).refused(pl.DataFrame({"a": [1], "b": [2]}))
    assert {row: each.why for row, each in refused.items()} == {0: "no [{'a': 1}]"}
