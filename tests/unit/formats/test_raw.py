"""The raw format: bytes as they are."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace.connect.format import Messages
from headrace.core.types import Schema, schema_of
from headrace.formats.raw import RawFormat

BINARY = schema_of({"value": "binary"})
STRING = schema_of({"line": "string"})


@pytest.mark.parametrize("kind", [pa.binary(), pa.large_binary(), pa.binary_view()])
def test_binary_takes_anything(kind: pa.DataType) -> None:
    decoded = RawFormat().open_decoder(BINARY).decode(Messages(pa.array([b"", None, b"\xff\n"], kind)))
    assert decoded.rows.rows() == [(b"",), (b"\xff\n",)]
    assert dict(decoded.rows.schema) == BINARY.polars()
    assert decoded.good is not None
    assert decoded.good.tolist() == [0, 2]
    assert decoded.skipped == 1


def test_string_must_be_utf8() -> None:
    decoder = RawFormat().open_decoder(STRING)
    decoded = decoder.decode(Messages(pa.array([b"a", b"b\xff", None, "é".encode()], pa.binary())))
    assert decoded.rows.rows() == [("a",), ("é",)]
    assert decoded.bad.tolist() == [1]
    assert decoded.reasons == ("not UTF-8: byte 0xff at 1",)
    assert decoded.good is not None
    assert decoded.good.tolist() == [0, 3]
    whole = decoder.decode(Messages(pa.array([b"a"], pa.binary())))
    assert whole.good is None
    assert dict(whole.rows.schema) == STRING.polars()
    assert decoder.decode(Messages(pa.array([], pa.binary()))).rows.height == 0


@pytest.mark.parametrize("schema", [BINARY, STRING])
def test_what_is_read_is_written(schema: Schema) -> None:
    messages = [b"a", b"", "é\n".encode()]
    rows = RawFormat().open_decoder(schema).decode(Messages(pa.array(messages, pa.binary()))).rows
    encoder = RawFormat().open_encoder(schema)
    written = encoder.encode(rows)
    assert written.cast(pa.binary()).to_pylist() == messages
    assert encoder.file_header() == b""
    with_null = rows.clear(1)
    assert encoder.encode(with_null).cast(pa.binary()).to_pylist() == [b""]


@pytest.mark.parametrize("columns", [{"a": "int64"}, {"a": "string", "b": "string"}, {}])
def test_any_other_schema_is_refused(columns: dict[str, str]) -> None:
    for check in (RawFormat().check_source, RawFormat().check_sink):
        (problem,) = check(schema_of(columns))
        assert "exactly one column, of type string or binary" in problem
    assert RawFormat().check_source(STRING) == []


@pytest.mark.parametrize(("schema", "expected"), [(BINARY, [b"a", None, b"\xff"]), (STRING, ["a", None])])
def test_tombstones_are_kept_if_asked_for(schema: Schema, expected: list[object]) -> None:
    decoder = RawFormat(tombstones="keep").open_decoder(schema)
    decoded = decoder.decode(Messages(pa.array([b"a", None, b"\xff"], pa.binary_view())))
    assert decoded.rows.to_series().to_list() == expected
    assert decoded.skipped == 0
    assert decoded.rows.height + len(decoded.bad) == 3
