"""The JSON kernel beside the row reader: where buffers grow, end at a page that cannot be read, or are slices.

`unit/formats/test_json_decode` compares both with an oracle on random messages, `fuzz/json_decode` on damaged ones.
"""

from __future__ import annotations

import json
import random
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from headrace.core.types import Schema, schema_of
from headrace.formats.doubtful_rows import staged_frame
from headrace.formats.json.decode import RowReader
from headrace.kernels.decode import messages as batches
from headrace.kernels.decode.columns import Columns
from headrace.kernels.decode.json_decode import json_kernel
from headrace.kernels.decode.messages import MessageKernel
from support.kernels.guarded import guarded_copy

FLAT = schema_of({"k": "int64", "ts": "timestamp", "v": "float64", "s": "string", "b": "bool"})
NESTED = schema_of(
    {
        "tags": "[string]",
        "flags": "[bool not null]",
        "items": "[{sku: string, n: int32, prices: [float64]}]",
        "place": "{x: float64, name: string}",
        "x": "binary",
    }
)


def opened(schema: Schema) -> MessageKernel:
    kernel = json_kernel(schema)
    assert kernel is not None
    return kernel


def check_rows(schema: Schema, messages: Sequence[bytes], array: pa.Array) -> None:
    frame, doubt = opened(schema).decode(array)
    assert not doubt.any()
    reader = RowReader(schema)
    assert frame.schema == schema.polars()
    assert frame.equals(staged_frame(schema, [reader.read(message) for message in messages]))


def nested_messages(count: int, elements: int) -> list[bytes]:
    draw = random.Random(5)
    return [
        json.dumps(
            {
                "tags": [draw.choice(["red", "ten letters", "more than twelve", None]) for _ in range(elements)],
                "flags": [draw.random() < 0.5 for _ in range(elements)],
                "items": [
                    {"sku": f"sku-{n}", "n": n, "prices": [n / 7] * (n % 3)} if n % 5 else None for n in range(elements)
                ],
                "place": {"x": number / 3, "name": "a name of some length"} if number % 2 else None,
                "x": "YWJjZGVmZ2hpamtsbW5vcA==",
            }
        ).encode()
        for number in range(count)
    ]


@pytest.mark.parametrize("elements", [0, 1, 63, 64, 65, 700])
def test_columns_below_lists_grow(elements: int) -> None:
    messages = nested_messages(3, elements)
    check_rows(NESTED, messages, pa.array(messages, pa.binary()))


def test_a_list_that_grows_in_a_doubtful_row_is_taken_back() -> None:
    good, bad = nested_messages(2, 90)
    messages = [good, bad[:-1], good, bad[:-1] + b',"tags":[]}', good]
    frame, doubt = opened(NESTED).decode(pa.array(messages, pa.binary()))
    assert doubt.tolist() == [False, True, False, True, False]
    reader = RowReader(NESTED)
    assert frame.equals(staged_frame(NESTED, [reader.read(good)] * 3))


def test_columns_of_one_list_grow_together(monkeypatch: pytest.MonkeyPatch) -> None:
    grown: list[int] = []
    grow = Columns.grow

    def counted(columns: Columns, index: int) -> None:
        grown.append(index)
        grow(columns, index)

    monkeypatch.setattr(Columns, "grow", counted)
    fields = ", ".join(f"c{number}: int64" for number in range(50))
    schema = schema_of({"items": f"[{{{fields}, inner: {{s: string}}, more: [int32]}}]"})
    message = json.dumps({"items": [{}] * 1_000 + [{"c49": 1, "inner": {"s": "x"}, "more": [1, 2, 3] * 200}]}).encode()
    check_rows(schema, [message], pa.array([message], pa.binary()))
    # 64 elements are doubled to 1,024 once for each list: the message is read again as often
    assert len(grown) == 8


@pytest.mark.parametrize("binary", [pa.binary(), pa.large_binary()])
def test_slices(binary: pa.DataType) -> None:
    messages = [b'{"k":%d,"s":"%d letters and more"}' % (n, n) for n in range(100)]
    whole = pa.array(messages, binary)
    check_rows(FLAT, messages[7:50], whole[7:50])
    check_rows(FLAT, [], whole[7:7])


@pytest.mark.parametrize("text", [pa.string(), pa.large_string()])
def test_texts_are_read_by_the_offsets_of_their_type(text: pa.DataType) -> None:
    messages = [b'{"k":%d}' % n for n in range(100)]
    check_rows(FLAT, messages, pa.array([message.decode() for message in messages], text))


@pytest.mark.parametrize("other", [pa.binary_view(), pa.binary(8), pa.null()])
def test_columns_without_such_offsets_are_refused(other: pa.DataType) -> None:
    with pytest.raises(TypeError, match=r"messages are .*: kernels read binary and large_binary"):
        opened(FLAT).decode(pa.array([], other))


@pytest.mark.parametrize("end", range(1, 90))
def test_messages_that_end_at_an_unreadable_page(end: int) -> None:
    message = b'{"k": 1234567890123456, "s": "nineteen \\u00e4 letters", "v": 0.1234567890123456, "b": true}'
    memory = guarded_copy(message[:end])
    offsets = np.array([0, end], np.int64)
    buffers = [None, pa.py_buffer(offsets), pa.foreign_buffer(memory.address, memory.size, memory)]
    frame, doubt = opened(FLAT).decode(pa.Array.from_buffers(pa.large_binary(), 1, buffers))
    assert doubt.tolist() == [end < len(message)]
    assert frame.height == (end == len(message))


def test_a_batch_beyond_what_views_address_is_halved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "TEXT_BYTES_MAX", 100)
    messages = [b'{"s":"%d letters and more"}' % n for n in range(50)]
    check_rows(FLAT, messages, pa.array(messages, pa.binary()))
    frame, doubt = opened(FLAT).decode(pa.array([b'{"s":"' + b"x" * 100 + b'"}'], pa.binary()))
    assert (frame.height, doubt.tolist()) == (0, [True])


@pytest.mark.parametrize("name", ['"', "\\", "\n", "\x7f\x00"])
def test_names_that_json_escapes_have_no_kernel(name: str) -> None:
    assert json_kernel(schema_of({"a": "int64", name: "int64"})) is None


def test_schemas_that_nest_without_end_have_no_kernel() -> None:
    assert json_kernel(schema_of({"a": "[" * 40 + "int64" + "]" * 40})) is None
    check_rows(schema_of({"a": "[" * 20 + "int64" + "]" * 20}), [b'{"a":[[]]}'], pa.array([b'{"a":[[]]}'], pa.binary()))


@pytest.mark.parametrize(
    "number",
    [
        *("9007199254740993.0", "9007199254740992.5", "0.5", "5e-1", "1e22", "1e23", "8.5e22", "3.4028235e38", "1e-5"),
        *("123456789012345678e-17", "1.7976931348623157e308", "2.2250738585072014e-308"),
        *("4503599627370496.5", "4503599627370497.5", "0.000000000000000000001234567890123456789", "-0.0", "-0e0"),
    ],
)
def test_floats_are_the_nearest(number: str) -> None:
    schema = schema_of({"v": "float64"})
    frame, doubt = opened(schema).decode(pa.array([f'{{"v":{number}}}'.encode()], pa.binary()))
    assert doubt.tolist() == [False]
    assert frame["v"][0].hex() == float(number).hex()
