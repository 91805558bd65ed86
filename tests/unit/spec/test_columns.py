"""Schemas in their file form: there and back for any type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.types import DataType, Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp, parse_type
from headrace.spec.columns import read_schema, schema_dict, type_text
from headrace.spec.findings import FindingsError

NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_ ]{0,6}[a-z]", fullmatch=True)


def fields_of(types: st.SearchStrategy[DataType]) -> st.SearchStrategy[tuple[Field, ...]]:
    field = st.builds(Field, NAMES, types, st.booleans())
    return st.lists(field, min_size=1, max_size=4, unique_by=lambda item: item.name).map(tuple)


LEAVES: st.SearchStrategy[DataType] = st.one_of(
    st.sampled_from(Primitive),
    st.builds(Timestamp, st.sampled_from(["s", "ms", "us"])),
    st.integers(1, 38).flatmap(lambda precision: st.builds(Decimal, st.just(precision), st.integers(0, precision))),
)
TYPES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(st.builds(ListOf, inner, st.booleans()), fields_of(inner).map(Struct)),
    max_leaves=8,
)


@given(fields_of(TYPES).map(Schema))
def test_there_and_back(schema: Schema) -> None:
    again = read_schema(schema_dict(schema))
    assert again == schema
    assert repr(again) == repr(schema), "the units of timestamps are kept, though they do not compare"


@given(TYPES, st.booleans())
def test_type_text_is_parsed_back(dtype: DataType, nullable: bool) -> None:
    text = type_text(dtype) + ("" if nullable else " not null")
    assert parse_type(text) == (dtype, nullable)


@pytest.mark.parametrize("text", ["{a}", "{: int64}", "{a: int64, a: string}", "{a: in64}", "{}"])
def test_wrong_struct_text(text: str) -> None:
    with pytest.raises(FindingsError):
        read_schema({"x": text})
