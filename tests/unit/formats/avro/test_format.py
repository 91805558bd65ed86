"""`format: avro` by a schema file: from the pipeline file to rows and back; what is refused before the first row."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.connect.format import FormatContext, Messages
from headrace.core.errors import UserError
from headrace.core.types import Schema, schema_of
from headrace.formats.avro import AvroFormat
from headrace.formats.doubtful_rows import staged_frame

ORDER = b"""{"type": "record", "name": "Order", "namespace": "shop", "fields": [
    {"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"], "default": null}]}"""
FORM = AvroFormat(schema_file="order.avsc")
COLUMNS = schema_of({"id": "int64 not null", "note": "string"})


def context(content: bytes = ORDER, **more: Any) -> FormatContext:
    return FormatContext(files={"order.avsc": content}, **more)


def test_rows_are_written_and_read() -> None:
    rows = staged_frame(COLUMNS, [[1, "x"], [-5, None]])
    messages = FORM.open_encoder(COLUMNS, context()).encode(rows)
    assert messages.to_pylist() == [b"\x02\x02\x02x", b"\x09\x00"]
    decoded = FORM.open_decoder(COLUMNS, context()).decode(Messages(messages))
    assert decoded.rows.equals(rows)  # type: ignore[union-attr]


def test_the_schema_travels() -> None:
    assert FORM.named_files({"order.avsc": ORDER}.__getitem__) == {"order.avsc": ORDER}


@pytest.mark.parametrize(
    ("end", "columns", "content", "message"),
    [
        ("source", {"id": "int32"}, ORDER, 'field "id": long cannot be read as int32'),
        ("sink", {"id": "string"}, ORDER, "column id: string cannot be written as long"),
        ("sink", {"note": "string"}, ORDER, "column id: a field of the Avro schema without default"),
        ("source", {"id": "int64"}, b"{", "order.avsc: an Avro schema that is not JSON"),
        ("source", {"id": "int64"}, b"\xff", "order.avsc is not UTF-8: byte 0"),
    ],
)
def test_what_does_not_fit_is_refused_when_the_format_is_prepared(
    end: Any, columns: dict[str, str], content: bytes, message: str
) -> None:
    preparation = FORM.open_preparation(schema_of(columns), context(content, end=end))
    with pytest.raises(UserError) as refused:
        preparation.prepare()
    assert message in str(refused.value)
    preparation.close()


def test_columns_that_fit_are_prepared() -> None:
    for end in ("source", "sink"):
        assert FORM.open_preparation(COLUMNS, context(end=end)).prepare() == {}


@pytest.mark.parametrize("check", [FORM.check_source, FORM.check_sink])
def test_no_columns(check: Any) -> None:
    assert check(Schema(()))
    assert not check(COLUMNS)
