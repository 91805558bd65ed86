"""Parquet frames are fitted to a schema strictly, and the format is for files only."""

from __future__ import annotations

import datetime as dt

import polars as pl
import pytest

from headrace.connect.registry import format_named, format_names
from headrace.core.errors import DataError, UserError
from headrace.core.types import Field, ListOf, Primitive, Schema, Struct, schema_of
from headrace.formats.parquet import ParquetFormat, fit_to_schema


def test_formats_are_found_by_name() -> None:
    assert {"json", "csv", "raw", "parquet"} <= set(format_names())
    for name in ("json", "csv", "raw", "parquet"):
        assert format_named(name).name == name


def test_messages_cannot_be_parquet() -> None:
    schema = schema_of({"a": "int64"})
    assert ParquetFormat().check_source(schema) == []
    for refused in (ParquetFormat().open_decoder, ParquetFormat().open_encoder):
        with pytest.raises(UserError, match="files connector"):
            refused(schema)


def test_widening_keeps_every_value() -> None:
    schema = schema_of(
        {
            "a": "int64",
            "i": "int32",
            "f": "float64",
            "t": "timestamp",
            "n": "timestamp",
            "p": "decimal(10,3)",
            "c": "string",
            "l": "[int64]",
            "z": "date",
        }
    )
    naive = dt.datetime(2013, 1, 1, 5)
    frame = pl.DataFrame(
        {
            "extra": [1],
            "z": [None],
            "l": pl.Series([[1, None]], dtype=pl.List(pl.Int8)),
            "c": pl.Series(["x"], dtype=pl.Categorical),
            "p": pl.Series(["1.50"]).cast(pl.Decimal(5, 2)),
            "t": pl.Series([naive], dtype=pl.Datetime("ms")),
            "n": pl.Series([naive], dtype=pl.Datetime("ns")).dt.replace_time_zone("Europe/Paris"),
            "f": pl.Series([1.5], dtype=pl.Float32),
            "i": pl.Series([7], dtype=pl.Int16),
            "a": pl.Series([7], dtype=pl.UInt32),
        }
    )
    fitted = fit_to_schema(frame, schema, place="x.parquet")
    assert dict(fitted.schema) == schema.polars()
    row = fitted.to_dicts()[0]
    assert (row["a"], row["i"], row["f"], row["c"], row["l"], row["z"]) == (7, 7, 1.5, "x", [1, None], None)
    assert row["t"] == naive.replace(tzinfo=dt.UTC)
    assert row["n"] == naive.replace(hour=4, tzinfo=dt.UTC)
    assert str(row["p"]) == "1.500"


def test_structs_are_fitted_by_name() -> None:
    schema = Schema((Field("o", Struct((Field("a", Primitive.INT64), Field("b", Primitive.STRING)))),))
    frame = pl.DataFrame({"o": [{"b": "x", "c": 1, "a": 5}, None]})
    assert fit_to_schema(frame, schema, place="f").to_dicts() == [{"o": {"a": 5, "b": "x"}}, {"o": None}]
    lists = Schema((Field("o", ListOf(schema.fields[0].type)),))
    fitted = fit_to_schema(frame.select(pl.concat_list("o")), lists, place="f")
    assert fitted.to_dicts() == [{"o": [{"a": 5, "b": "x"}]}, {"o": [None]}]


@pytest.mark.parametrize(
    ("column", "wanted"),
    [
        (pl.Series("a", ["1"]), "int64"),
        (pl.Series("a", [1.0]), "int64"),
        (pl.Series("a", [1]), "float64"),
        (pl.Series("a", [1], dtype=pl.Int64), "int32"),
        (pl.Series("a", [1], dtype=pl.UInt64), "int64"),
        (pl.Series("a", [1.0]), "float32"),
        (pl.Series("a", [1]), "timestamp"),
        (pl.Series("a", ["x"]), "binary"),
        (pl.Series("a", ["1.5"]).cast(pl.Decimal(10, 3)), "decimal(10,2)"),
        (pl.Series("a", [["x"]]), "[int64]"),
    ],
)
def test_another_type_is_an_error_that_names_both(column: pl.Series, wanted: str) -> None:
    with pytest.raises(UserError, match=r'x\.parquet: field "a" is .* in the schema but .* in the file'):
        fit_to_schema(column.to_frame(), schema_of({"a": wanted}), place="x.parquet")


def test_missing_columns() -> None:
    frame = pl.DataFrame({"a": [1, 2]})
    assert fit_to_schema(frame, schema_of({"b": "string", "a": "int64"}), place="f").rows() == [(None, 1), (None, 2)]
    with pytest.raises(DataError, match='f: field "b" is not null but missing'):
        fit_to_schema(frame, schema_of({"b": "string not null"}), place="f")


def test_a_time_beyond_64_bits_of_microseconds_is_the_furthest_one() -> None:
    """polars panics; one of years 1 to 9999 it must not become."""
    times = pl.Series("t", [18_446_744_073_709_552, -18_446_744_073_709_552, None, 5], dtype=pl.Datetime("ms"))
    fitted = fit_to_schema(pl.DataFrame([times]), schema_of({"t": "timestamp"}), place="f")
    assert fitted["t"].to_physical().to_list() == [2**63 - 808, -(2**63) + 808, None, 5_000]
