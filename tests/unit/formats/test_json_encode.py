"""JSON as it is written: a golden file pins the text, and what is written is read back."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import math
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.format import Messages
from headrace.core.types import Decimal, Field, ListOf, Primitive, Schema, Struct, Timestamp
from headrace.formats.json import FORMAT, JsonFormat
from headrace.formats.json.decode import json_decoder
from headrace.formats.json.encode import JsonEncoder, encode_json_object
from support.oracles.formats import frames

GOLDEN = Path(__file__).parent / "golden" / "json_out.jsonl"
_INNER = Struct(
    (
        Field("t", Timestamp()),
        Field("x", Primitive.BINARY),
        Field("p", Decimal(38, 10)),
        Field("l", ListOf(Primitive.DATE)),
    )
)
SCHEMA = Schema(
    (
        Field("text", Primitive.STRING),
        Field("b", Primitive.BOOL),
        Field("i", Primitive.INT32),
        Field("a", Primitive.INT64),
        Field("f", Primitive.FLOAT64),
        Field("g", Primitive.FLOAT32),
        Field("p", Decimal(10, 2)),
        Field("x", Primitive.BINARY),
        Field("d", Primitive.DATE),
        Field("t", Timestamp()),
        Field("l", ListOf(Timestamp())),
        Field("o", _INNER),
        Field("s", ListOf(_INNER)),
    )
)
_T = dt.datetime(2013, 1, 1, 5, tzinfo=dt.UTC)
_MICRO = dt.timedelta(microseconds=1)
_O = {"t": _T, "x": b"\x00\xff", "p": decimal.Decimal("-1.5"), "l": [dt.date(2013, 1, 1), None]}


def _golden_frame() -> pl.DataFrame:
    columns = _texts_and_flags() | _numbers() | _times() | _nested()
    return pl.DataFrame([pl.Series(name, columns[name], dtype=dtype) for name, dtype in SCHEMA.polars().items()])


def _texts_and_flags() -> dict[str, list[object]]:
    escapes = '"\\/\n\r\t\b\f\0\x1f\x7f é😀\u2028<&>'
    return {
        "text": ["plain", escapes, "", None, None, "5", "1e300", "9007199254740993"],
        "b": [True, False, *[None] * 6],
        "x": [b"ab", b"", b"\xff", *[None] * 5],
    }


def _numbers() -> dict[str, list[object]]:
    prices = [decimal.Decimal(text) for text in ("1.50", "-0.01", "99999999.99", "0.00")]
    return {
        "i": [1, -(2**31), 2**31 - 1, None, None, 0, 0, 0],
        "a": [1, -(2**63), 2**63 - 1, None, None, 0, 0, 2**53 + 1],
        "f": [1.0, 0.1, 1e22, math.nan, math.inf, -0.0, 1e300, 5e-324],
        "g": [1.0, 0.1, 1e-7, math.nan, -math.inf, 16777216.0, 3.4028234663852886e38, 1e-45],
        "p": [*prices[:3], None, None, prices[3], None, None],
    }


def _times() -> dict[str, list[object]]:
    first, last = _T.replace(year=1, microsecond=123000), _T.replace(year=9999, microsecond=999999)
    before_epoch = dt.datetime(1969, 12, 31, 23, 59, 59, 999000, dt.UTC)
    return {
        "d": [dt.date(2013, 1, 1), dt.date(1, 1, 1), dt.date(9999, 12, 31), *[None] * 5],
        "t": [_T, _T + _MICRO, first, last, None, before_epoch, None, None],
        "l": [[_T, None], [], None, [_T + _MICRO], *[None] * 4],
    }


def _nested() -> dict[str, list[object]]:
    return {
        "o": [_O, None, dict.fromkeys(_O), *[None] * 5],
        "s": [[_O, None], [], *[None] * 6],
    }


@pytest.mark.parametrize("kernels", [True, False])
def test_output_is_pinned(kernels: bool) -> None:
    messages = JsonEncoder(SCHEMA, kernels=kernels).encode(_golden_frame())
    assert "\n".join(messages.to_pylist()) + "\n" == GOLDEN.read_text(encoding="utf-8")


@pytest.mark.parametrize("kernels", [True, False])
def test_epoch_ms(kernels: bool) -> None:
    encoder = JsonEncoder(SCHEMA, timestamps="epoch_ms", kernels=kernels)
    parsed = [json.loads(message) for message in encoder.encode(_golden_frame()).to_pylist()]
    assert [row["t"] for row in parsed[:2]] == [1357016400000, 1357016400000]
    assert parsed[5]["t"] == -1
    assert parsed[4]["t"] is None
    assert parsed[0]["l"] == [1357016400000, None]
    assert parsed[0]["s"][0]["t"] == 1357016400000


def test_hidden_columns_are_left_out_and_order_is_the_schemas() -> None:
    schema = Schema((Field("b", Primitive.INT64), Field("a", Primitive.STRING)))
    rows = pl.DataFrame({"__ts": [1], "a": ["x"], "b": [2]})
    encoder = JsonFormat().open_encoder(schema)
    assert encoder.encode(rows).to_pylist() == ['{"b":2,"a":"x"}']
    assert encoder.encode(rows.clear()).to_pylist() == []
    assert encoder.file_header() == b""


@pytest.mark.parametrize("kernels", [True, False])
def test_key_objects_are_compact_and_in_the_listed_order(kernels: bool) -> None:
    rows = pl.DataFrame({"a": ["x", None], "b": [1, 2], "": [0.5, 1.0]})
    objects = encode_json_object(rows, ["", "a"], kernels=kernels).to_pylist()
    assert objects == ['{"":0.5,"a":"x"}', '{"":1.0,"a":null}']


@given(frames(SCHEMA, finite=True), st.booleans())
def test_what_is_written_is_read_back(frame: pl.DataFrame, kernels: bool) -> None:
    messages = JsonEncoder(SCHEMA, kernels=kernels).encode(frame)
    assert messages.null_count == 0
    decoded = json_decoder(SCHEMA, kernels=kernels).decode(Messages(messages.cast(pa.large_binary())))
    assert decoded.reasons == ()
    assert decoded.rows.equals(frame)


@pytest.mark.parametrize(("days", "text"), [(-719_163, "0000-12-31"), (2_932_897, "+10000-01-01")])
@pytest.mark.parametrize("kernels", [True, False])
def test_years_outside_1_to_9999_are_written_but_not_read(days: int, text: str, kernels: bool) -> None:
    schema = Schema((Field("d", Primitive.DATE), Field("t", Timestamp())))
    day = pl.Series("d", [days], pl.Int32).cast(pl.Date)
    frame = pl.DataFrame([day, day.cast(pl.Datetime("us", "UTC")).alias("t")])
    messages = JsonEncoder(schema, kernels=kernels).encode(frame)
    assert messages.to_pylist() == [f'{{"d":"{text}","t":"{text}T00:00:00.000Z"}}']
    decoded = json_decoder(schema, kernels=kernels).decode(Messages(messages.cast(pa.large_binary())))
    assert decoded.reasons == (f'field "d": expected date (YYYY-MM-DD), found string "{text}"',)


@given(st.lists(st.one_of(st.none(), st.integers(-(2**55), 2**55)), min_size=1, max_size=5), st.booleans())
def test_times_are_written_alike_in_small_and_large_frames(micros: list[int | None], kernels: bool) -> None:
    schema = Schema((Field("t", Timestamp()),))
    column = pl.Series("t", micros, dtype=pl.Int64).cast(pl.Datetime("us", "UTC"))
    encoder = JsonEncoder(schema, kernels=kernels)
    small = encoder.encode(column.to_frame()).to_pylist()
    assert encoder.encode(pl.concat([column] * 300).to_frame()).to_pylist() == small * 300


@pytest.mark.parametrize("schema", [SCHEMA, Schema((Field("a", Primitive.INT64),))])
def test_every_type_is_fine_in_json(schema: Schema) -> None:
    assert FORMAT.config().check_source(schema) == []
    assert FORMAT.config().check_sink(schema) == []
    assert FORMAT.config().check_source(Schema(())) != []
