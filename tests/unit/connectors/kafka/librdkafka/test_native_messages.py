from __future__ import annotations

import ctypes
import mmap

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace_connectors.kafka.librdkafka.functions import MESSAGE
from headrace_connectors.kafka.librdkafka.native_messages import FEW_ROWS, MessageMemory, copied
from support.suite.properties import weighted

VALUES = st.lists(st.none() | st.binary(max_size=30), min_size=1, max_size=40)


def placed(values: list[bytes | None], order: list[int], gap: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values in memory in another order than theirs, with gaps; gives the memory, addresses and lengths."""
    memory = np.full(sum(len(value or b"") + gap for value in values) + 1, 0xEE, np.uint8)
    addresses, lengths = np.zeros(len(values), np.uint64), np.zeros(len(values), np.uint64)
    at = 0
    for index in order:
        value = values[index]
        if value is None:
            continue
        memory[at : at + len(value)] = np.frombuffer(value, np.uint8)
        addresses[index], lengths[index] = memory.ctypes.data + at, len(value)
        at += len(value) + gap
    return memory, addresses, lengths


@weighted(2)
@given(st.data(), VALUES, st.integers(0, 9), st.sampled_from([1, FEW_ROWS]))
def test_values_are_copied_exactly(data: st.DataObject, values: list[bytes | None], gap: int, times: int) -> None:
    order = data.draw(st.permutations(range(len(values))))
    memory, addresses, lengths = placed(values, order, gap)
    column = copied(np.tile(addresses, times), np.tile(lengths, times))
    memory[:] = 0
    column.validate(full=True)
    assert column.to_pylist() == values * times


@given(st.data(), VALUES)
def test_fields_are_those_of_the_structs(data: st.DataObject, values: list[bytes | None]) -> None:
    count = len(values)
    held, addresses, lengths = placed(values, list(range(count)), 0)
    structs = np.zeros(3 * count, MESSAGE)
    places = data.draw(st.permutations(range(3 * count)))[:count]
    structs["pad0"], structs["pad1"] = -1, -1
    for field, column in (
        ("payload", addresses),
        ("len", lengths),
        ("key", addresses[::-1]),
        ("key_len", lengths[::-1]),
        ("topic", np.arange(count) + 7),
        ("partition", np.arange(count) + 1),
        ("offset", np.arange(count) * 1_000_000_007),
        ("err", -np.arange(count)),
    ):
        structs[field][places] = column
    memory = MessageMemory(np.array([structs.ctypes.data + MESSAGE.itemsize * place for place in places], np.uint64))
    found = memory.structs()
    assert found.errors.tolist() == [-n for n in range(count)]
    assert found.topics.tolist() == [n + 7 for n in range(count)]
    assert found.partitions.tolist() == [n + 1 for n in range(count)]
    assert found.offsets.tolist() == [n * 1_000_000_007 for n in range(count)]
    assert memory.values().to_pylist() == values
    assert memory.keys().to_pylist() == values[::-1]
    assert len(held)


@pytest.mark.parametrize("length", [0, 1, 12, 13, 100])
def test_nothing_beyond_a_value_is_read(length: int) -> None:
    """The value ends where the memory that may be read ends."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    libc = ctypes.CDLL(None)
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    value = bytes(range(1, length + 1))
    memory[page - length : page] = value
    assert libc.mprotect(address + page, page, 0) == 0
    try:
        starts = np.array([address + page - length, 0], np.uint64)
        lengths = np.array([length, 0], np.uint64)
        for times in (1, FEW_ROWS):
            found = copied(np.tile(starts, times), np.tile(lengths, times))
            assert found.to_pylist() == [value, None] * times
    finally:
        assert libc.mprotect(address + page, page, mmap.PROT_READ | mmap.PROT_WRITE) == 0


def test_values_that_lie_far_apart() -> None:
    """Over 2 GiB, which one Arrow view cannot reach over; what lies between is not read."""
    memory = mmap.mmap(-1, 3 << 30, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    places = [at + extra for at in (0, (5 << 29) + 5, 1 << 30) for extra in (0, 50)]
    values = [bytes([number + 1]) * (5 + 9 * number) for number in range(len(places))]
    for at, value in zip(places, values, strict=True):
        memory[at : at + len(value)] = value
    starts = np.array([address + at for at in places], np.uint64)
    lengths = np.array([len(value) for value in values], np.uint64)
    assert copied(np.tile(starts, FEW_ROWS), np.tile(lengths, FEW_ROWS)).to_pylist() == values * FEW_ROWS
