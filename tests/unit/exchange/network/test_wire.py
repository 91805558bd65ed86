"""The codec: every type survives, columns may change, strings of a slice alone travel, and nonsense is refused."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from unittest.mock import patch

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InternalError
from headrace.core.signals import TIME_MAX, TIME_MIN, Barrier, EndOfInput, Signal, Watermark
from headrace.exchange.edge.adaptive_bounds import ChannelBounds
from headrace.exchange.edge.rows import Rows
from headrace.exchange.network.wire import (
    HEADER,
    PAYLOAD_MAX,
    BatchDecoder,
    BatchEncoder,
    ChannelName,
    Credit,
    Frame,
    FrameType,
    Header,
    decode_credit,
    decode_header,
    decode_open,
    decode_signal,
    encode_credit,
    encode_header,
    encode_open,
    encode_signal,
)
from headrace.kernels import arrow_message

SCHEMA: dict[str, pl.DataType] = {
    "i8": pl.Int8(),
    "i16": pl.Int16(),
    "i32": pl.Int32(),
    "u64": pl.UInt64(),
    "f32": pl.Float32(),
    "f64": pl.Float64(),
    "flag": pl.Boolean(),
    "price": pl.Decimal(38, 9),
    "text": pl.String(),
    "raw": pl.Binary(),
    "day": pl.Date(),
    "at": pl.Datetime("us", "UTC"),
    "tags": pl.List(pl.String()),
    "place": pl.Struct({"lat": pl.Float64(), "names": pl.List(pl.Struct({"n": pl.String(), "d": pl.Decimal(10, 2)}))}),
    "none": pl.Null(),
    "__ts": pl.Int64(),
    "__op": pl.Boolean(),
}
DECIMALS = st.decimals(-(10**20), 10**20, places=9)
VALUES: dict[str, st.SearchStrategy[object]] = {
    "i8": st.integers(-128, 127),
    "i16": st.integers(-(1 << 15), (1 << 15) - 1),
    "i32": st.integers(-(1 << 31), (1 << 31) - 1),
    "u64": st.integers(0, (1 << 64) - 1),
    "f32": st.floats(width=32),
    "f64": st.floats(),
    "flag": st.booleans(),
    "price": DECIMALS,
    "text": st.text(max_size=40),
    "raw": st.binary(max_size=40),
    "day": st.dates(dt.date(1600, 1, 1)),
    "at": st.datetimes(dt.datetime(1600, 1, 1), timezones=st.just(dt.UTC)),
    "tags": st.lists(st.none() | st.text(max_size=20), max_size=3),
    "place": st.fixed_dictionaries(
        {
            "lat": st.none() | st.floats(),
            "names": st.none() | st.lists(st.fixed_dictionaries({"n": st.text(), "d": st.none()}), max_size=2),
        }
    ),
    "none": st.none(),
    "__ts": st.integers(TIME_MIN, TIME_MAX),
    "__op": st.booleans(),
}


NESTED = ("tags", "place", "none")
"""Columns that are not written by a kernel."""


@st.composite
def batches(draw: st.DrawFn) -> pl.DataFrame:
    """Rows of some of the columns, NULLs everywhere; perhaps a slice, or of several chunks."""
    flat = [name for name in SCHEMA if name not in NESTED]
    names = draw(st.lists(st.sampled_from(draw(st.sampled_from([flat, list(SCHEMA)]))), min_size=1, unique=True))
    height = draw(st.integers(0, 6))
    schema = {name: SCHEMA[name] for name in names}
    columns = {name: draw(st.lists(st.none() | VALUES[name], min_size=height, max_size=height)) for name in names}
    frame = pl.DataFrame(columns, schema=schema)
    if draw(st.booleans()):
        frame = pl.concat([frame, frame], rechunk=False)
    begin = draw(st.integers(0, frame.height))
    return frame.slice(begin, draw(st.integers(0, frame.height)))


@st.composite
def chosen(draw: st.DrawFn) -> Rows:
    """All rows of a batch, or some in any order."""
    whole = Rows.all_of(draw(batches()))
    if draw(st.booleans()):
        return whole
    order = draw(st.permutations(range(whole.height)))[: draw(st.integers(0, whole.height))]
    return Rows(whole.batch, np.array(order, np.uint32), whole.bytes)


def travelled(rows: Rows, encoder: BatchEncoder, decoder: BatchDecoder) -> pl.DataFrame:
    """What arrives."""
    arrived: list[pl.DataFrame] = []
    for frame in encoder.encode(rows):
        payload = memoryview(pa.py_buffer(bytes(frame.payload)))
        if frame.type is FrameType.SCHEMA:
            decoder.on_schema(payload)
        else:
            arrived.append(decoder.decode(payload))
    (one,) = arrived
    return one


@pytest.mark.parametrize("kernels", ["on", "off"])
@given(sent=st.lists(chosen(), min_size=1, max_size=4))
def test_rows_arrive_as_they_were(sent: list[Rows], kernels: str) -> None:
    encoder, decoder = BatchEncoder(), BatchDecoder()
    with patch.object(arrow_message, "is_loaded", lambda: kernels == "on"):
        for rows in sent:
            arrived = travelled(rows, encoder, decoder)
            assert arrived.schema == rows.batch.schema
            assert arrived.equals(rows.gathered())


def test_the_schema_goes_out_once_and_when_columns_change() -> None:
    encoder = BatchEncoder()
    narrow, wide = pl.DataFrame({"a": [1]}), pl.DataFrame({"a": [1], "__wm": [2]})
    kinds = [
        [frame.type for frame in encoder.encode(Rows.all_of(batch))] for batch in (narrow, narrow, wide, wide, narrow)
    ]
    both, rows = [FrameType.SCHEMA, FrameType.DATA], [FrameType.DATA]
    assert kinds == [both, rows, both, rows, both]


@pytest.mark.parametrize("kernels", ["on", "off"])
def test_a_slice_of_a_gathered_batch_takes_only_its_own_strings_along(kernels: str) -> None:
    rows, parts = 16_000, 16
    whole = pl.DataFrame({"text": [f"a text that is too long to be inlined {n}" for n in range(rows)]})
    gathered = whole[pl.Series(np.random.default_rng(1).permutation(rows).astype(np.uint32))]
    part = gathered.slice(rows // 2, rows // parts)
    with patch.object(arrow_message, "is_loaded", lambda: kernels == "on"):
        size = sum(len(frame.payload) for frame in BatchEncoder().encode(Rows.all_of(part)))
        assert size < 3 * rows * 60 // parts
        assert travelled(Rows.all_of(part), BatchEncoder(), BatchDecoder()).equals(part)


@pytest.mark.parametrize(
    "signal", [Watermark(TIME_MIN), Watermark(TIME_MAX), Barrier(0), Barrier(1 << 40), EndOfInput()]
)
def test_signals_arrive_as_they_were(signal: Signal) -> None:
    frame = encode_signal(signal)
    head = decode_header(encode_header(7, frame))
    assert head == Header(7, frame.type, len(frame.payload))
    assert decode_signal(head.type, frame.payload) == signal


def test_notices_arrive_as_they_were() -> None:
    credit = Credit(1 << 50, 1 << 60, ChannelBounds(5, 1 << 33))
    assert decode_credit(encode_credit(credit).payload) == credit
    name = ChannelName("hourly", 3)
    assert decode_open(encode_open(name).payload) == name
    assert decode_signal(FrameType.PING, b"") is None


@pytest.mark.parametrize(
    ("type_", "length"), [(0, 0), (99, 0), (FrameType.DATA, PAYLOAD_MAX + 1), (FrameType.CREDIT, 1 << 20)]
)
def test_a_head_that_is_none_is_refused(type_: int, length: int) -> None:
    with pytest.raises(InternalError, match="malformed frame"):
        decode_header(HEADER.pack(0, type_, length))


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b'{"task": 1, "channel": 0}', b'{"task": "a", "channel": -1}'])
def test_an_open_that_names_no_channel_is_refused(payload: bytes) -> None:
    with pytest.raises(InternalError, match="malformed frame"):
        decode_open(payload)


@given(st.binary(max_size=64))
def test_payloads_of_another_shape_are_refused(payload: bytes) -> None:
    decoder = BatchDecoder()
    with pytest.raises(InternalError, match="malformed"):
        decoder.decode(payload)
    with pytest.raises(InternalError, match="malformed"):
        decoder.on_schema(payload)
    if len(payload) != 8:
        with pytest.raises(InternalError, match="malformed"):
            decode_signal(FrameType.BARRIER, payload)
    if len(payload) != 32:
        with pytest.raises(InternalError, match="malformed"):
            decode_credit(payload)


@given(st.data())
def test_a_truncated_batch_is_refused(data: st.DataObject) -> None:
    batch = pl.DataFrame({"a": [1, 2], "b": ["x", "a text that is too long to be inlined"], "c": [Decimal(1), None]})
    schema, rows = BatchEncoder().encode(Rows.all_of(batch))
    decoder = BatchDecoder()
    decoder.on_schema(schema.payload)
    cut = data.draw(st.integers(0, len(rows.payload) - 9))
    with pytest.raises(InternalError, match="malformed"):
        decoder.decode(bytes(rows.payload)[:cut])
    with pytest.raises(InternalError, match="malformed"):
        BatchDecoder().on_schema(bytes(schema.payload)[: data.draw(st.integers(0, len(schema.payload) - 9))])


def test_rows_of_other_columns_than_announced_are_refused() -> None:
    schema, _ = BatchEncoder().encode(Rows.all_of(pl.DataFrame({"a": ["x"], "b": [1]})))
    _, rows = BatchEncoder().encode(Rows.all_of(pl.DataFrame({"a": [1]})))
    decoder = BatchDecoder()
    decoder.on_schema(schema.payload)
    with pytest.raises(InternalError, match="malformed"):
        decoder.decode(rows.payload)


def test_a_frame_larger_than_any_is_not_sent() -> None:
    class Huge(bytes):
        def __len__(self) -> int:
            return PAYLOAD_MAX + 1

    with pytest.raises(InternalError, match="too large"):
        encode_header(0, Frame(FrameType.DATA, Huge()))
