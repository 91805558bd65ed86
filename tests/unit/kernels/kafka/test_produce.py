"""Messages as the kernel gives them to rd_kafka_produce_batch, beside those that numpy fills; refusals and reports."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import CFUNCTYPE, c_int, c_int32, c_void_p
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.kafka.produce import ProduceKernel, produce_kernel
from headrace_connectors.kafka.librdkafka.functions import COPY_PAYLOAD, DELIVERY_CALLBACK, MESSAGE
from headrace_connectors.kafka.sink.producers import ArrayCalls, DeliveryReports
from support.kernels.guarded import guarded_copy
from support.kernels.guarded_inputs import LARGE, TYPES, guarded_column

TOPIC = 77
TIMED_OUT, PURGED = -192, -152
VALUES = st.none() | st.text(max_size=20).map(str.encode)
ROWS = st.lists(st.tuples(VALUES, VALUES), max_size=40)
BEFORE = st.lists(VALUES, max_size=12)


@dataclass
class FakeQueue:
    """Takes messages as rd_kafka_produce_batch does. `refused`: how many records it takes before it refuses one."""

    refused: int | None = None
    error: int = TIMED_OUT
    queued: list[tuple[bytes | None, bytes | None, int]] = field(default_factory=list)
    calls: int = 0

    def __post_init__(self) -> None:
        self.rd_kafka_produce_batch = CFUNCTYPE(c_int, c_void_p, c_int32, c_int, c_void_p, c_int)(self._take)

    def kernel(self) -> ProduceKernel:
        kernel = produce_kernel(ctypes.cast(self.rd_kafka_produce_batch, c_void_p).value or 0, TOPIC, COPY_PAYLOAD)
        assert kernel is not None
        return kernel

    def _take(self, topic: int, partition: int, flags: int, place: int, count: int) -> int:
        assert (topic, flags) == (TOPIC, COPY_PAYLOAD)
        assert count
        self.calls += 1
        memory = (ctypes.c_char * (count * MESSAGE.itemsize)).from_address(place)
        messages = np.frombuffer(memoryview(memory), MESSAGE)
        taken = 0
        for message in messages:
            assert not any(int(message[name]) for name in ("err", "topic", "partition", "offset", "private"))
            if len(self.queued) == self.refused:
                message["err"] = self.error
                continue
            self.queued.append((_bytes(message, "payload", "len"), _bytes(message, "key", "key_len"), partition))
            taken += 1
        return taken


def _bytes(message: np.void, address: str, length: str) -> bytes | None:
    at, size = int(message[address]), int(message[length])
    assert at or not size
    return ctypes.string_at(at, size) if at else None


def numbered(count: int) -> pa.Array:
    return pa.array([b"%d" % number for number in range(count)], pa.large_binary())


@given(ROWS, BEFORE, BEFORE, st.sampled_from(TYPES), st.sampled_from(TYPES), st.booleans(), st.integers(-1, 2**31 - 1))
def test_messages_are_the_rows(
    rows: list[tuple[bytes | None, bytes | None]],
    before_values: list[bytes | None],
    before_keys: list[bytes | None],
    value_type: pa.DataType,
    key_type: pa.DataType,
    keyed: bool,
    partition: int,
) -> None:
    values = guarded_column([value for value, _ in rows], value_type, before_values)
    keys = guarded_column([key for _, key in rows], key_type, before_keys) if keyed else None
    queue = FakeQueue()
    assert queue.kernel().produce(values, keys, partition) == 0
    assert queue.queued == [(value, key if keyed else None, partition) for value, key in rows]
    if rows and value_type in LARGE and key_type in LARGE:
        slow = FakeQueue()
        values, keys = (None if each is None else _as_binary(each) for each in (values, keys))
        assert ArrayCalls(slow, TOPIC).produce(values, keys, partition) == 0  # type: ignore[arg-type]
        assert slow.queued == queue.queued


def _as_binary(column: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(pa.large_binary(), len(column), column.buffers(), offset=column.offset)


def murmur2(key: bytes) -> int:
    """As Kafka's `Utils.murmur2`, without its sign."""
    mask, factor = 0xFFFFFFFF, 0x5BD1E995
    state = 0x9747B28C ^ len(key)
    whole = len(key) // 4 * 4
    for begin in range(0, whole, 4):
        word = int.from_bytes(key[begin : begin + 4], "little") * factor & mask
        word = (word ^ word >> 24) * factor & mask
        state = (state * factor ^ word) & mask
    if rest := key[whole:]:
        state = (state ^ int.from_bytes(rest, "little")) * factor & mask
    state = (state ^ state >> 13) * factor & mask
    return (state ^ state >> 15) & 0x7FFFFFFF


def test_the_hash_is_kafkas() -> None:
    """With the values of Kafka's own UtilsTest."""
    vectors = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536, b"abc": 479470107}
    assert {key: murmur2(key) for key in vectors} == {key: value & 0x7FFFFFFF for key, value in vectors.items()}


@given(ROWS, BEFORE, BEFORE, st.sampled_from(TYPES), st.sampled_from(TYPES), st.integers(1, 40))
def test_rows_go_to_the_partitions_of_their_keys(
    rows: list[tuple[bytes | None, bytes | None]],
    before_values: list[bytes | None],
    before_keys: list[bytes | None],
    value_type: pa.DataType,
    key_type: pa.DataType,
    partitions: int,
) -> None:
    """Those of one partition in their order, those without a key where librdkafka wants them."""
    values = guarded_column([value for value, _ in rows], value_type, before_values)
    keys = guarded_column([key for _, key in rows], key_type, before_keys)
    queue = FakeQueue()
    assert queue.kernel().produce_by_key(values, keys, partitions) == 0
    placed = [(value, key, -1 if key is None else murmur2(key) % partitions) for value, key in rows]
    # sorted() is stable; those without a key are the last
    assert queue.queued == sorted(placed, key=lambda row: row[2] % (partitions + 1))


@pytest.mark.parametrize("count", [0, 1, 1_000, 5_000])
@pytest.mark.parametrize("partitions", [1, 4, 10_000])
def test_many_keys(count: int, partitions: int) -> None:
    queue, keys = FakeQueue(), numbered(count)
    assert queue.kernel().produce_by_key(keys, keys, partitions) == 0
    placed = [(key, key, murmur2(key) % partitions) for key in keys.to_pylist()]
    assert queue.queued == sorted(placed, key=lambda row: row[2])


@pytest.mark.parametrize("refused", [0, 1, 500, 999])
def test_a_refusal_ends_all_partitions(refused: int) -> None:
    queue, keys = FakeQueue(refused, PURGED), numbered(1_000)
    assert queue.kernel().produce_by_key(keys, keys, 7) == PURGED
    whole = FakeQueue()
    whole.kernel().produce_by_key(keys, keys, 7)
    assert queue.queued == whole.queued[:refused]
    assert queue.calls <= whole.calls


def test_without_kernels_the_library_chooses_partitions() -> None:
    queue, keys = FakeQueue(), numbered(3)
    assert ArrayCalls(queue, TOPIC).produce_by_key(keys, keys, 7) == 0  # type: ignore[arg-type]
    assert [partition for _, _, partition in queue.queued] == [-1, -1, -1]


@pytest.mark.parametrize("column", [["", None, ""], [""], [None, None]])
@pytest.mark.parametrize("dtype", TYPES)
def test_an_empty_value_is_not_null(column: Sequence[str | None], dtype: pa.DataType) -> None:
    """Also where the column has no byte of data."""
    values, queue = pa.array(column, dtype), FakeQueue()
    assert queue.kernel().produce(values, values, 0) == 0
    expected = [None if text is None else b"" for text in column]
    assert queue.queued == [(each, each, 0) for each in expected]


@pytest.mark.parametrize("count", [0, 1, 255, 256, 257, 1_000])
def test_a_batch_goes_over_in_order_a_few_at_a_time(count: int) -> None:
    queue = FakeQueue()
    assert queue.kernel().produce(numbered(count), None, 3) == 0
    assert queue.queued == [(b"%d" % number, None, 3) for number in range(count)]
    assert queue.calls == -(-count // 256)


@pytest.mark.parametrize("refused", [0, 1, 255, 256, 600, 999])
def test_a_refusal_ends_it(refused: int) -> None:
    """The error of the first record that is refused; no further batch is tried."""
    queue = FakeQueue(refused, PURGED)
    assert queue.kernel().produce(numbered(1_000), None, 0) == PURGED
    assert [value for value, _, _ in queue.queued] == [b"%d" % number for number in range(refused)]
    assert queue.calls == refused // 256 + 1
    slow = FakeQueue(refused, PURGED)
    assert ArrayCalls(slow, TOPIC).produce(numbered(1_000), None, 0) == PURGED  # type: ignore[arg-type]


@pytest.mark.parametrize("middle", [5, -1, 2**40])
def test_offsets_outside_the_data_are_not_followed(middle: int) -> None:
    """Arrow looks at the first one and the last one only."""
    offsets = pa.py_buffer(np.array([0, middle, 4], np.int64))
    column = pa.Array.from_buffers(pa.large_binary(), 2, [None, offsets, pa.py_buffer(b"four")])
    queue = FakeQueue()
    for values, keys in ((column, None), (numbered(2), column)):
        with pytest.raises(AssertionError, match="offsets of a column lie within its data"):
            queue.kernel().produce(values, keys, 0)
        with pytest.raises(AssertionError, match="offsets of a column lie within its data"):
            queue.kernel().produce_by_key(values, numbered(2) if keys is None else keys, 3)


@pytest.mark.parametrize("counter", ["kernel", "python"])
def test_reports_are_counted_and_the_first_failure_is_kept(counter: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if counter == "python":
        module = "headrace_connectors.kafka.sink.producers.delivery_counter"
        monkeypatch.setattr(module, lambda: None)
    reports = DeliveryReports()
    callback, opaque = reports.callbacks.values()
    assert isinstance(callback, DELIVERY_CALLBACK)
    assert reports.first_error() is None
    for code in (0, TIMED_OUT, 0, PURGED, PURGED):
        message = np.zeros(1, MESSAGE)
        message["err"] = code
        memory = guarded_copy(message.tobytes())
        callback(None, memory.address, opaque)
    error = reports.first_error()
    assert error is not None
    assert error.code() == TIMED_OUT
