"""Messages taken from memory that ends at unreadable pages: every field, every length, each released once."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ExternalError
from headrace.kernels.kafka import take as taking
from headrace.kernels.kafka.take import TakeKernel, Taken, take_kernel
from support.kernels.fake_messages import FakeMessages, Record

NUMBERS = st.integers(-(2**31), 2**31 - 1)
BYTES = st.none() | st.binary(max_size=40)
NAMES = st.text(st.characters(exclude_characters="\0", codec="utf-8"), max_size=5).map(str.encode)
RECORDS = st.builds(
    Record,
    value=BYTES,
    key=BYTES,
    topic=st.integers(1, 2**64 - 1),
    partition=st.integers(0, 2**31 - 1),
    offset=st.integers(-(2**63), 2**63 - 1),
    error=st.just(0) | st.just(0) | NUMBERS,
    timestamp=st.integers(-1, 2**63 - 1),
    headers=st.lists(st.tuples(NAMES, BYTES), max_size=3),
)


def kernel_of(messages: FakeMessages, **wants: bool) -> TakeKernel:
    functions = messages.functions(timestamps=wants.get("timestamps", False), headers=wants.get("headers", False))
    kernel = take_kernel(functions, wants_keys=wants.get("keys", False))
    assert kernel is not None
    return kernel


def check(taken: Taken, good: list[Record]) -> None:
    taken.values.validate(full=True)
    assert taken.values.to_pylist() == [record.value for record in good]
    assert taken.topics.tolist() == [record.topic for record in good]
    assert taken.partitions.tolist() == [record.partition for record in good]
    assert taken.offsets.tolist() == [record.offset for record in good]


@given(st.lists(RECORDS, min_size=1, max_size=20))
def test_columns_are_those_of_the_messages(records: list[Record]) -> None:
    messages = FakeMessages(records)
    kernel = kernel_of(messages, keys=True, timestamps=True, headers=True)
    good = [record for record in records if not record.error]
    taken = kernel.take(messages.addresses)
    assert (taken is None) == (not good)
    if taken is not None:
        check(taken, good)
        assert taken.keys is not None
        assert taken.headers is not None
        assert taken.timestamps is not None
        taken.keys.validate(full=True)
        taken.headers.validate(full=True)
        assert taken.keys.to_pylist() == [record.key for record in good]
        assert taken.timestamps.tolist() == [record.timestamp for record in good]
        assert [
            [(header["key"].encode(), header["value"]) for header in headers] for headers in taken.headers.to_pylist()
        ] == [list(record.headers) for record in good]
    # those with an error stay for whoever reads it
    assert (messages.addresses != 0).tolist() == [bool(record.error) for record in records]
    kernel.release(messages.addresses)
    assert sorted(messages.released) == list(range(len(records)))
    assert not messages.addresses.any()


def test_columns_that_nobody_wants_are_not_read() -> None:
    messages = FakeMessages([Record(b"v", key=b"k", headers=[(b"h", b"x")])])
    taken = kernel_of(messages).take(messages.addresses)
    assert taken is not None
    assert (taken.keys, taken.timestamps, taken.headers) == (None, None, None)


def test_values_beyond_the_capacity_of_binary(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(taking, "BINARY_BYTES_MAX", 10)
    messages = FakeMessages([Record(b"x" * 6), Record(None), Record(b"y" * 6)])
    taken = kernel_of(messages).take(messages.addresses)
    assert taken is not None
    assert str(taken.values.type) == "large_binary"
    check(taken, list(messages.records))


def test_a_header_without_a_name_in_utf8_is_an_error_and_leaks_nothing() -> None:
    messages = FakeMessages([Record(b"a"), Record(b"b", headers=[(b"\xff", b"")]), Record(b"c")])
    kernel = kernel_of(messages, headers=True)
    with pytest.raises(ExternalError, match="name is not UTF-8"):
        kernel.take(messages.addresses)
    kernel.release(messages.addresses)
    assert messages.released == [0, 1, 2]
