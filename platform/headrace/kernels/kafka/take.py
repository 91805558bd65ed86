"""Copies messages of librdkafka to columns and releases them: `c/kafka/take.c`."""

from __future__ import annotations

import ctypes
from ctypes import c_int64, c_void_p
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.core.arrow_arrays import BINARY_BYTES_MAX
from headrace.core.errors import ExternalError
from headrace.kernels.arrow_columns import packed_bits
from headrace.kernels.library import is_loaded, kernel

_HEADER = pa.struct([("key", pa.large_string()), ("value", pa.large_binary())])


class _Bytes(ctypes.Structure):
    _fields_ = (
        ("ends", c_void_p),
        ("end_bytes", c_int64),
        ("valid", c_void_p),
        ("bytes", c_void_p),
        ("bytes_used", c_int64),
        ("bytes_max", c_int64),
        ("count", c_int64),
        ("nulls", c_int64),
    )


class _Take(ctypes.Structure):
    _fields_ = (
        ("messages", c_void_p),
        ("count", c_int64),
        ("release", c_void_p),
        ("timestamp", c_void_p),
        ("headers", c_void_p),
        ("header", c_void_p),
        ("wants_keys", c_int64),
        ("records", c_int64),
        ("value_bytes", c_int64),
        ("key_bytes", c_int64),
        ("header_count", c_int64),
        ("header_name_bytes", c_int64),
        ("header_value_bytes", c_int64),
        ("topics", c_void_p),
        ("partitions", c_void_p),
        ("offsets", c_void_p),
        ("timestamps", c_void_p),
        ("header_ends", c_void_p),
        ("values", _Bytes),
        ("keys", _Bytes),
        ("header_names", _Bytes),
        ("header_values", _Bytes),
    )


@dataclass(frozen=True, slots=True)
class MessageFunctions:
    """Addresses of librdkafka's functions; 0 for a column that is not requested.

    release    rd_kafka_message_destroy
    timestamp  rd_kafka_message_timestamp
    headers    rd_kafka_message_headers
    header     rd_kafka_header_get_all
    """

    release: int
    timestamp: int = 0
    headers: int = 0
    header: int = 0


@dataclass(frozen=True, slots=True)
class Taken:
    """n records in the order of their messages.

    values, keys   Arrow binary, or large_binary beyond 2 GiB; NULL is a tombstone, or a record without a key
    topics         uint64[n] addresses of topic handles
    partitions     int32[n]
    offsets        int64[n]
    timestamps     int64[n] epoch ms, -1 where a record has none
    headers        Arrow large_list<struct{key: large_string, value: large_binary}>
    """

    values: pa.Array
    keys: pa.Array | None
    topics: npt.NDArray[np.uint64]
    partitions: npt.NDArray[np.int32]
    offsets: npt.NDArray[np.int64]
    timestamps: npt.NDArray[np.int64] | None
    headers: pa.Array | None


class TakeKernel:
    """Copies and releases batches of messages. Close the client only when no call runs."""

    def __init__(self, functions: MessageFunctions, *, wants_keys: bool) -> None:
        self._functions = functions
        self._wants_keys = wants_keys
        self._measure = kernel("headrace_take_measure", None, c_void_p)
        self._copy = kernel("headrace_take_copy", c_int64, c_void_p)
        self._release = kernel("headrace_take_release", None, c_void_p)

    def take(self, addresses: npt.NDArray[np.uint64]) -> Taken | None:
        """Copies the messages at these addresses that have no error, and releases them. None: all have an error.

        Sets the addresses of released messages to 0. Raises ExternalError for a header whose name is not UTF-8.
        """
        functions = self._functions
        take = _Take(
            addresses.ctypes.data,
            len(addresses),
            functions.release,
            functions.timestamp,
            functions.headers,
            functions.header,
            self._wants_keys,
        )
        self._measure(ctypes.addressof(take))
        if not take.records:
            return None
        return self._taken(take)

    def _taken(self, take: _Take) -> Taken:
        records = take.records
        topics, partitions = np.empty(records, np.uint64), np.empty(records, np.int32)
        offsets = np.empty(records, np.int64)
        timestamps = np.empty(records, np.int64) if take.timestamp else None
        take.topics, take.partitions, take.offsets = topics.ctypes.data, partitions.ctypes.data, offsets.ctypes.data
        take.timestamps = 0 if timestamps is None else timestamps.ctypes.data
        values = _BytesMemory(records, take.value_bytes)
        take.values = values.column
        keys = _BytesMemory(records, take.key_bytes) if self._wants_keys else None
        if keys is not None:
            take.keys = keys.column
        headers = _HeaderMemory(take) if take.headers else None
        if self._copy(ctypes.addressof(take)) < records:
            raise ExternalError("a record has a header whose name is not UTF-8")
        return Taken(
            values.array(take.values),
            None if keys is None else keys.array(take.keys),
            topics,
            partitions,
            offsets,
            timestamps,
            None if headers is None else headers.array(take),
        )

    def release(self, addresses: npt.NDArray[np.uint64]) -> None:
        """Releases the remaining messages: those whose address is not 0."""
        take = _Take(addresses.ctypes.data, len(addresses), self._functions.release)
        self._release(ctypes.addressof(take))


class _BytesMemory:
    """Memory of a column of bytes, allocated by Arrow, so that any thread may release it."""

    def __init__(self, count: int, size: int, arrow: pa.DataType | None = None) -> None:
        """`arrow`: a type with 64-bit offsets; None: binary, or large_binary if binary's capacity is too small."""
        is_small = arrow is None and size <= BINARY_BYTES_MAX
        self._arrow = pa.binary() if is_small else arrow or pa.large_binary()
        width = 4 if is_small else 8
        self._ends, self._data = pa.allocate_buffer((count + 1) * width), pa.allocate_buffer(size)
        self._valid = np.empty(count, np.uint8)
        self.column = _Bytes(self._ends.address, width, self._valid.ctypes.data, self._data.address, 0, size)

    def array(self, column: _Bytes) -> pa.Array:
        """The column that the kernel filled."""
        count = column.count
        validity = None
        if column.nulls:
            validity = packed_bits(self._valid.ctypes.data, count)
        buffers = [validity, self._ends, self._data]
        return pa.Array.from_buffers(self._arrow, count, buffers, null_count=column.nulls)


class _HeaderMemory:
    def __init__(self, take: _Take) -> None:
        self._names = _BytesMemory(take.header_count, take.header_name_bytes, pa.large_string())
        self._values = _BytesMemory(take.header_count, take.header_value_bytes, pa.large_binary())
        self._ends = pa.allocate_buffer((take.records + 1) * 8)
        take.header_names, take.header_values = self._names.column, self._values.column
        take.header_ends = self._ends.address

    def array(self, take: _Take) -> pa.Array:
        names = self._names.array(take.header_names)
        values = self._values.array(take.header_values)
        headers = pa.Array.from_buffers(_HEADER, len(names), [None], children=[names, values])
        return pa.Array.from_buffers(pa.large_list(_HEADER), take.records, [None, self._ends], children=[headers])


def take_kernel(functions: MessageFunctions, *, wants_keys: bool) -> TakeKernel | None:
    """The kernel for these columns; None where kernels are off or missing."""
    return TakeKernel(functions, wants_keys=wants_keys) if is_loaded() else None
