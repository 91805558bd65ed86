"""Types: text form, polars form, schemas."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import UserError
from headrace.core.types import (
    TIMESTAMP,
    DataType,
    Decimal,
    Field,
    ListOf,
    Primitive,
    Schema,
    Struct,
    Timestamp,
    parse_type,
    polars_type,
    schema_of,
)

SCALARS: st.SearchStrategy[DataType] = (
    st.sampled_from(list(Primitive))
    | st.just(TIMESTAMP)
    | st.integers(1, 38).flatmap(
        lambda precision: st.integers(0, precision).map(lambda scale: Decimal(precision, scale))
    )
)
TYPES: st.SearchStrategy[DataType] = st.recursive(SCALARS, lambda inner: st.builds(ListOf, inner, st.booleans()))


@given(TYPES, st.booleans())
def test_text_and_type_say_the_same(dtype: DataType, nullable: bool) -> None:
    field = Field("c", dtype, nullable)
    assert parse_type(field.type_text) == (dtype, nullable)


@pytest.mark.parametrize(
    ("text", "dtype", "nullable"),
    [
        ("int64", Primitive.INT64, True),
        ("  string   NOT  NULL ", Primitive.STRING, False),
        ("decimal( 10 , 2 )", Decimal(10, 2), True),
        ("[int64 not null]", ListOf(Primitive.INT64, nullable=False), True),
        ("[int64] not null", ListOf(Primitive.INT64), False),
        ("[[date]]", ListOf(ListOf(Primitive.DATE)), True),
    ],
)
def test_types_as_people_write_them(text: str, dtype: DataType, nullable: bool) -> None:
    assert parse_type(text) == (dtype, nullable)


def test_the_unit_of_a_timestamp_is_for_reading_only() -> None:
    parsed = [parse_type(text)[0] for text in ("timestamp", "timestamp(s)", "timestamp( us )")]
    assert [item.unit for item in parsed if isinstance(item, Timestamp)] == ["ms", "s", "us"]
    assert parsed == [TIMESTAMP] * 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("strin", "unknown type 'strin'\n.*did you mean 'string'"),
        ("Int64", "did you mean 'int64'"),
        ("decimal", "unknown type 'decimal'"),
        ("decimal(39,2)", "precision is 1 to 38"),
        ("decimal(4,5)", "scale at most the precision"),
        ("timestamp(ns)", "unknown type"),
        ("", "unknown type ''"),
        ("[]", "unknown type ''"),
        ("[int64", "unknown type"),
    ],
)
def test_what_is_no_type_gets_the_nearest(text: str, message: str) -> None:
    with pytest.raises(UserError, match=f"(?s){message}"):
        parse_type(text)


def test_polars_holds_every_type() -> None:
    nested = Struct((Field("a", Decimal(10, 2)), Field("b", ListOf(TIMESTAMP))))
    assert polars_type(nested) == pl.Struct(
        {"a": pl.Decimal(10, 2), "b": pl.List(pl.Datetime("us", "UTC"))},
    )
    assert str(nested) == "{a: decimal(10,2), b: [timestamp]}"
    for primitive in Primitive:
        assert pl.Series([None], dtype=polars_type(primitive)).dtype == polars_type(primitive)


def test_schema_looks_up_and_shows_its_columns() -> None:
    schema = schema_of({"a": "int64 not null", "b": "string"})
    assert schema.names == ("a", "b")
    assert "a" in schema
    assert "c" not in schema
    assert schema.field("b") == Field("b", Primitive.STRING)
    assert schema.get("c") is None
    with pytest.raises(KeyError):
        schema.field("c")
    assert str(schema) == "a: int64 not null, b: string"
    assert schema.json() == {"a": "int64 not null", "b": "string"}
    assert dict(schema.empty().schema) == {"a": pl.Int64(), "b": pl.String()}
    assert len(schema) == len(list(schema)) == 2


def test_column_names_are_unique() -> None:
    with pytest.raises(AssertionError, match="unique"):
        Schema((Field("a", Primitive.BOOL), Field("a", Primitive.DATE)))
