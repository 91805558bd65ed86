"""From librdkafka's message structs to columns that own their memory: numpy gathers the fields at the messages'
addresses, Arrow copies what they point to.

Reads just the bytes that belong to the messages; knows nothing of how they came or go.
"""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.connect.source import Offsets
from headrace.core.arrow_arrays import binary_array
from headrace.core.errors import ExternalError
from headrace_connectors.kafka.librdkafka.functions import MESSAGE
from headrace_connectors.kafka.source.fetched import BINARY_BYTES_MAX

Addresses = npt.NDArray[np.uint64]

_WORD = 8
_SPAN_BITS = np.uint64(30)
"""Arrow views reach 2 GiB into a buffer: each buffer is what lies in one GiB of addresses."""
_INLINE_BYTES = 12
"""Up to this length, Arrow keeps a value within its view."""
_VIEW = np.dtype([("len", "<i4"), ("prefix", "<u4"), ("buffer", "<i4"), ("offset", "<i4")])
FEW_ROWS = 32
"""Fewer rows are copied one by one: that takes less than the calls that copy many at once."""


class _Memory:
    """Memory by its address, for numpy: `count` elements, `stride` bytes apart. Only those that are asked for are
    read, so that what lies between need not exist."""

    def __init__(self, address: int, count: int, typestr: str, stride: int) -> None:
        self.__array_interface__ = {
            "data": (address, True),
            "shape": (count,),
            "typestr": typestr,
            "strides": (stride,),
            "version": 3,
        }

    def array(self) -> npt.NDArray[Any]:
        return np.asarray(self)


@dataclass(frozen=True, slots=True)
class Structs:
    """The fields of n messages, a column each. `topics`: addresses of topic handles, alike for one topic."""

    errors: npt.NDArray[np.int32]
    topics: Addresses
    partitions: npt.NDArray[np.int32]
    offsets: Offsets


class MessageMemory:
    """n messages by their addresses; valid until they are destroyed."""

    def __init__(self, addresses: Addresses) -> None:
        low, high = int(addresses.min()), int(addresses.max())
        words = (high - low + MESSAGE.itemsize) // _WORD
        self._words = _Memory(low, words, "<u8", _WORD).array()
        self._first = ((addresses - np.uint64(low)) >> np.uint64(3)).astype(np.int64)

    def _field(self, name: str) -> Addresses:
        """A field as its whole word: of a 32-bit field, the lower half is it."""
        fields = MESSAGE.fields
        assert fields is not None
        found: Addresses = self._words[self._first + fields[name][1] // _WORD]
        return found

    def structs(self) -> Structs:
        """What all messages have."""
        return Structs(
            self._field("err").astype(np.int32),
            self._field("topic"),
            self._field("partition").astype(np.int32),
            self._field("offset").view(np.int64),
        )

    def values(self) -> pa.Array:
        """Copies of the payloads; NULL where a message has none."""
        return copied(self._field("payload"), self._field("len"))

    def keys(self) -> pa.Array:
        """Copies of the keys; NULL where a message has none."""
        return copied(self._field("key"), self._field("key_len"))


def copied(addresses: Addresses, lengths: npt.NDArray[np.uint64]) -> pa.Array:
    """The bytes at these addresses as an Arrow column that owns them; NULL where the address is 0."""
    if len(addresses) < FEW_ROWS:
        pairs = zip(addresses.tolist(), lengths.tolist(), strict=True)
        return binary_array([ctypes.string_at(at, length) if at else None for at, length in pairs])
    missing = addresses == 0
    size = int(lengths.sum())
    if int(lengths.max()) > BINARY_BYTES_MAX:
        raise ExternalError(f"a record of {int(lengths.max())} bytes: the most is {BINARY_BYTES_MAX}")
    views = np.zeros(len(addresses), _VIEW)
    views["len"] = lengths
    buffers: list[pa.Buffer] = []
    short = lengths <= _INLINE_BYTES
    if short.any():
        _fill_short(views, addresses, lengths, np.flatnonzero(short & ~missing))
        index = np.flatnonzero(~short)
        _fill_long(views, addresses, lengths, index, buffers)
    else:
        _fill_long(views, addresses, lengths, slice(None), buffers)
    validity = pa.py_buffer(np.packbits(~missing, bitorder="little")) if missing.any() else None
    column = pa.Array.from_buffers(pa.binary_view(), len(addresses), [validity, pa.py_buffer(views), *buffers])
    return column.cast(pa.binary() if size <= BINARY_BYTES_MAX else pa.large_binary())


def _fill_long(
    views: npt.NDArray[Any],
    addresses: Addresses,
    lengths: npt.NDArray[np.uint64],
    index: npt.NDArray[np.int64] | slice,
    buffers: list[pa.Buffer],
) -> None:
    """Views of values that stay where they are. Their prefix, which only comparisons read, is left empty."""
    starts = addresses[index]
    if not len(starts):
        return
    ends = starts + lengths[index]
    # one buffer where all lie near each other, as those of one answer to a fetch mostly do
    near = int(starts.max()) - int(starts.min()) < 1 << int(_SPAN_BITS)
    spans = np.zeros_like(starts) if near else starts >> _SPAN_BITS
    number = np.zeros(len(starts), np.int32)
    offset = np.empty(len(starts), np.int32)
    for code, span in enumerate((0,) if near else np.unique(spans)):
        within = spans == span
        low, high = int(starts[within].min()), int(ends[within].max())
        number[within] = code
        offset[within] = starts[within] - np.uint64(low)
        buffers.append(pa.foreign_buffer(low, high - low))
    views["buffer"][index] = number
    views["offset"][index] = offset


def _fill_short(
    views: npt.NDArray[Any],
    addresses: Addresses,
    lengths: npt.NDArray[np.uint64],
    index: npt.NDArray[np.int64],
) -> None:
    """Views that hold their value: byte by byte, for not a single one behind a value's end may be read."""
    index = index[lengths[index] > 0]
    if not len(index):
        return
    starts, left = addresses[index], lengths[index]
    low = int(starts.min())
    memory = _Memory(low, int(starts.max()) - low + _INLINE_BYTES, "|u1", 1).array()
    places = (starts - np.uint64(low)).astype(np.int64)
    held = views.view(np.uint8).reshape(len(views), _VIEW.itemsize)
    for byte in range(int(left.max())):
        there = left > byte
        held[index[there], 4 + byte] = memory[places[there] + byte]
