"""Frames of a batch, against a reader of one message at a time, and against Confluent's own writer."""

from __future__ import annotations

import uuid
from collections.abc import Sequence

import polars as pl
import pyarrow as pa
import pytest
from confluent_kafka.schema_registry.serde import SchemaId as ConfluentId
from hypothesis import given
from hypothesis import strategies as st

from headrace.connect.format import Side
from headrace.core.arrow_arrays import binary_array
from headrace.formats.registry.frames import APICURIO, APICURIO_HEADERS, GLUE, HEADERS, Frames, frame_head, read_frames
from headrace.formats.registry.schemas import SchemaId

Header = tuple[str, bytes | None]
Group = tuple[SchemaId, tuple[int, ...] | None]
"""A schema and a message of it."""
GUID = uuid.UUID("89791762-2336-4186-9674-299b90a802e2")
ID_7 = b"\0\0\0\0\7"
BARE = b"\x02"
"""A payload without a frame, shorter than any."""


def headers_of(rows: Sequence[Sequence[Header] | None]) -> pl.Series:
    dtype = pl.List(pl.Struct({"key": pl.String, "value": pl.Binary}))
    listed = [None if row is None else [{"key": key, "value": value} for key, value in row] for row in rows]
    return pl.Series("headers", listed, dtype=dtype)


def by_message(frames: Frames) -> dict[int, tuple[Group, bytes]]:
    """Group and payload of each good message."""
    found = {}
    for group in frames.groups:
        payloads = group.payloads.to_pylist()
        assert len(payloads) == len(group.index) > 0
        assert group.index.tolist() == sorted(group.index.tolist())
        for index, payload in zip(group.index.tolist(), payloads, strict=True):
            assert index not in found
            found[index] = (group.schema, group.message), payload
    return found


# ---- an oracle of one message at a time --------------------------------------------------------------------------


def oracle_varint(data: bytes, at: int) -> tuple[int, int] | None:
    value = 0
    for number in range(5):
        if at == len(data):
            return None
        value |= (data[at] & 0x7F) << (7 * number)
        at += 1
        if data[at - 1] < 0x80:
            return (value >> 1) ^ -(value & 1), at
    return None


def oracle_indexes(data: bytes, at: int) -> tuple[tuple[int, ...], int] | None:
    read = oracle_varint(data, at)
    if read is None or not 0 <= read[0] <= 32:
        return None
    count, at = read
    path: list[int] = []
    for _ in range(count):
        read = oracle_varint(data, at)
        if read is None or read[0] < 0:
            return None
        path.append(read[0])
        at = read[1]
    return tuple(path) or (0,), at


def oracle_frame(frame: bytes, *, with_messages: bool) -> tuple[Group, int] | None:
    """The group and where the frame ends; None: bad."""
    schema: SchemaId
    if frame[:1] == b"\0" and len(frame) >= 5 and 0 < int.from_bytes(frame[1:5], "big") < 2**31:
        schema, at = int.from_bytes(frame[1:5], "big"), 5
    elif frame[:1] == b"\1" and len(frame) >= 17:
        schema, at = str(uuid.UUID(bytes=frame[1:17])), 17
    else:
        return None
    if not with_messages:
        return (schema, None), at
    read = oracle_indexes(frame, at)
    return None if read is None else ((schema, read[0]), read[1])


def oracle(value: bytes, headers: Sequence[Header], side: Side, *, with_messages: bool) -> tuple[Group, bytes] | None:
    named = [text for key, text in headers if key == HEADERS[side] and text is not None]
    if named:
        read = oracle_frame(named[-1], with_messages=with_messages)
        return None if read is None else (read[0], value)
    if any(key == f"apicurio.{side}.globalId" and text is not None for key, text in headers):
        return None
    read = oracle_frame(value, with_messages=with_messages)
    return None if read is None else (read[0], value[read[1] :])


SMALL_IDS = st.sampled_from([1, 7, 300, 2**31 - 1]).map(lambda number: b"\0" + number.to_bytes(4, "big"))
GUIDS = st.sampled_from([b"\1" + GUID.bytes, b"\1" + bytes(16), b"\1" + b"\xff" * 16])
INDEXES = st.sampled_from(
    [b"\0", b"\2\0", b"\2\2", b"\4\0\2", b"\4\0\0", b"\x80\0", b"\2\x80\0", b"\1", b"\2\1", b"\x86"]
)
HEADS = st.tuples(st.one_of(SMALL_IDS, GUIDS), INDEXES).map(b"".join)
FRAMED = st.tuples(HEADS, st.binary(max_size=9)).map(b"".join)
ODD = st.tuples(st.sampled_from([b"", b"\0", b"\1", b"\3\0", b"{", b"\0\0\0\0\0"]), st.binary(max_size=20)).map(
    b"".join
)
VALUES = st.one_of(FRAMED, FRAMED, ODD, st.none())
NAMES = st.sampled_from([*HEADERS.values(), "apicurio.value.globalId", "apicurio.key.globalId", "other"])
RECORD_HEADERS = st.lists(st.tuples(NAMES, st.one_of(HEADS, ODD, st.none())), max_size=3)


@given(st.lists(st.tuples(VALUES, RECORD_HEADERS), max_size=40), st.sampled_from(["value", "key"]), st.booleans())
def test_a_batch_is_read_as_its_messages_one_by_one(
    rows: list[tuple[bytes | None, list[Header]]],
    side: Side,
    with_messages: bool,
) -> None:
    values = [value for value, _ in rows]
    frames = read_frames(
        binary_array(values), headers_of([row for _, row in rows]), side=side, with_messages=with_messages
    )
    expected = {
        index: oracle(value, headers, side, with_messages=with_messages)
        for index, (value, headers) in enumerate(rows)
        if value is not None
    }
    assert by_message(frames) == {index: read for index, read in expected.items() if read is not None}
    assert sorted(frames.bad) == [index for index, read in expected.items() if read is None]
    assert frames.skipped == values.count(None)


@given(st.lists(VALUES, min_size=1, max_size=40), st.booleans())
def test_layouts_and_slices_of_a_column_are_read_alike(values: list[bytes | None], with_messages: bool) -> None:
    whole = binary_array([b"before", *values, b"behind"])
    expected = read_frames(binary_array(values), with_messages=with_messages)
    for dtype in (pa.binary(), pa.large_binary(), pa.binary_view()):
        column = whole.cast(dtype).slice(1, len(values))
        read = read_frames(column, with_messages=with_messages)
        assert by_message(read) == by_message(expected)
        assert (read.bad, read.skipped) == (expected.bad, expected.skipped)


# ---- Confluent's writer ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("path", [None, [0], [1], [0, 0], [0, 2], [3, 1, 4, 1, 5], [200, 70_000]])
@pytest.mark.parametrize("payload", [b"", BARE, b"a payload"])
def test_what_confluent_writes_is_read(path: list[int] | None, payload: bytes) -> None:
    written = ConfluentId("PROTOBUF", 7, str(GUID), path)
    message = None if path is None else tuple(path)
    with_messages = path is not None
    assert written.id_to_bytes() == frame_head(7, message)
    for head, schema in ((written.id_to_bytes(), 7), (written.guid_to_bytes(), str(GUID))):
        in_payload = read_frames(binary_array([head + payload]), with_messages=with_messages)
        assert by_message(in_payload) == {0: ((schema, message), payload)}
        named = headers_of([[("__key_schema_id", head)]])
        in_header = read_frames(binary_array([payload]), named, side="key", with_messages=with_messages)
        assert by_message(in_header) == {0: ((schema, message), payload)}


def test_a_header_comes_before_what_the_message_begins_with() -> None:
    named = headers_of([[("__value_schema_id", b"\1" + GUID.bytes)], [("__key_schema_id", ID_7)], None])
    read = by_message(read_frames(binary_array([ID_7 + BARE] * 3), named))
    assert [read[index][0][0] for index in range(3)] == [str(GUID), 7, 7]
    assert [read[index][1] for index in range(3)] == [ID_7 + BARE, BARE, BARE]


def test_of_two_headers_the_last_one_counts() -> None:
    named = headers_of([[("__value_schema_id", b"\0\0\0\0\1"), ("__value_schema_id", ID_7)]])
    assert read_frames(binary_array([BARE]), named).schemas == (7,)


def test_a_batch_of_one_schema_is_one_group() -> None:
    frames = read_frames(binary_array([ID_7 + bytes([each]) for each in range(100)]))
    assert [len(group.index) for group in frames.groups] == [100]


# ---- what is no frame --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "no bytes, so no schema id"),
        (b"\0\0\0", "cut off in its schema id: 3 of 5 bytes"),
        (b"\1" + GUID.bytes[:9], "cut off in its schema id: 10 of 17 bytes"),
        (b"\0\0\0\0\0", "its schema id is 0, which no schema has"),
        (b"\0\xff\xff\xff\xff", "its schema id is 4294967295, which no schema has"),
        (b'{"k": 1}', "begins with byte 0x7b, not with a schema id (0x00 or 0x01)"),
        (b"\3\0" + GUID.bytes + BARE, GLUE),
        (b"\3\5" + GUID.bytes, GLUE),
        (b"\0" + (7).to_bytes(8, "big") + BARE, APICURIO),
    ],
)
def test_a_reason_names_what_a_message_is(value: bytes, reason: str) -> None:
    frames = read_frames(binary_array([value, ID_7]))
    assert frames.bad == {0: reason}
    assert frames.schemas == (7,)


def test_apicurios_headers_are_named() -> None:
    named = headers_of([[("apicurio.value.globalId", bytes(8))], [("apicurio.key.globalId", bytes(8))]])
    frames = read_frames(binary_array([ID_7, ID_7]), named)
    assert frames.bad == {0: APICURIO_HEADERS}
    assert list(by_message(frames)) == [1]


def test_a_reason_names_the_header() -> None:
    named = headers_of([[("__value_schema_id", b"\1\2")]])
    assert read_frames(binary_array([BARE]), named).bad == {
        0: "header __value_schema_id: cut off in its schema id: 2 of 17 bytes"
    }


def test_a_path_deeper_than_the_compiler_allows_is_bad() -> None:
    head = frame_head(7, [0] * 33)
    assert list(read_frames(binary_array([head]), with_messages=True).bad) == [0]
    assert read_frames(binary_array([frame_head(7, [0] * 32)]), with_messages=True).groups[0].message == (0,) * 32


def test_tombstones_with_headers_are_skipped() -> None:
    frames = read_frames(binary_array([None]), headers_of([[("__value_schema_id", ID_7)]]))
    assert (frames.groups, frames.bad, frames.skipped) == ([], {}, 1)
