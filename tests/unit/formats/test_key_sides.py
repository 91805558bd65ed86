"""Formats as those of record keys: raw integers as Kafka's own serializers write them, and what no key can be."""

from __future__ import annotations

import struct

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.format import Decoded, FormatContext, Messages
from headrace.connect.registry import format_named
from headrace.core.types import schema_of
from headrace.formats.raw import RawFormat

KEY = FormatContext("n", "source", "key")
WIDTHS = {"int32": (4, ">i"), "int64": (8, ">q")}


@pytest.mark.parametrize("name", WIDTHS)
@given(data=st.data())
def test_integers_are_their_bytes_the_highest_first(name: str, data: st.DataObject) -> None:
    size, form = WIDTHS[name]
    schema = schema_of({"k": name})
    number = st.integers(-(2 ** (8 * size - 1)), 2 ** (8 * size - 1) - 1)
    values = data.draw(st.lists(st.one_of(st.none(), number, st.binary(max_size=12)), max_size=12))
    raw = [struct.pack(form, each) if isinstance(each, int) else each for each in values]
    good = [place for place, each in enumerate(raw) if each is not None and len(each) == size]

    array = pa.array([b"before", *raw], pa.binary())[1:]
    decoded = RawFormat().open_decoder(schema, KEY).decode(Messages(array))
    assert decoded.rows["k"].to_list() == [struct.unpack(form, raw[place] or b"")[0] for place in good]
    assert (list(range(len(raw))) if decoded.good is None else decoded.good.tolist()) == good
    assert decoded.bad.tolist() == [place for place, each in enumerate(raw) if each is not None and len(each) != size]
    assert decoded.skipped == raw.count(None)

    written = RawFormat().open_encoder(schema, KEY).encode(decoded.rows)
    assert written.to_pylist() == [raw[place] for place in good]


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_a_key_of_another_length_is_bad(kind: pa.DataType) -> None:
    array = pa.array([struct.pack(">q", 7), b"abc", None], kind)
    decoded = RawFormat().open_decoder(schema_of({"k": "int64"}), KEY).decode(Messages(array))
    assert isinstance(decoded, Decoded)
    assert (decoded.rows["k"].to_list(), decoded.reasons) == ([7], ("3 bytes, and an integer has 8",))


def test_values_have_no_raw_integers() -> None:
    assert RawFormat().check_source(schema_of({"k": "int64"})) != []
    assert RawFormat().check_key(schema_of({"k": "int64"})) == []
    assert RawFormat().check_key(schema_of({"k": "float64"})) != []
    assert RawFormat().check_key(schema_of({"k": "int64", "l": "int64"})) != []


def test_json_keys_tell_nan_from_null() -> None:
    schema = schema_of({"f": "float64", "n": "int64"})
    rows = pl.DataFrame({"f": [float("nan"), None, -0.0], "n": [1, 2, 3]})
    keys = format_named("json").config().open_encoder(schema, FormatContext("n", "sink", "key")).encode(rows)
    assert keys.to_pylist() == ['{"f":"NaN","n":1}', '{"f":null,"n":2}', '{"f":0.0,"n":3}']


@pytest.mark.parametrize("name", ["csv", "parquet"])
def test_other_formats_have_no_keys(name: str) -> None:
    assert format_named(name).config().check_key(schema_of({"k": "string"})) == [
        "this format has no keys: use json or raw"
    ]
