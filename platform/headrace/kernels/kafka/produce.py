"""Queues rows of Arrow columns in librdkafka, and counts its delivery reports: `c/kafka/produce.c`."""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_void_p

import numpy as np
import pyarrow as pa

from headrace.kernels.kafka.binary_column import BinaryColumn, binary_column
from headrace.kernels.library import is_loaded, kernel, library

_ROWS_MAX = 1 << 31


class _Produce(ctypes.Structure):
    _fields_ = (
        ("values", BinaryColumn),
        ("keys", BinaryColumn),
        ("count", c_int64),
        ("produce_batch", c_void_p),
        ("topic", c_void_p),
        ("flags", c_int32),
        ("partition", c_int32),
        ("error", c_int64),
        ("partitions", c_int32),
        ("chosen", c_void_p),
        ("rows", c_void_p),
        ("ends", c_void_p),
    )


class Deliveries(ctypes.Structure):
    """`deliveries_t`: the number of failed records and the first one's error code. Outlives the client that writes
    it."""

    _fields_ = (("failed", c_int64), ("first_error", c_int64))


class ProduceKernel:
    """Queues records in one topic. Close the client only when no call runs.

    produce_batch   address of rd_kafka_produce_batch
    topic           address of the topic's handle
    flags           of rd_kafka_produce_batch; they include the flag that copies payloads
    """

    def __init__(self, produce_batch: int, topic: int, flags: int) -> None:
        self._produce = kernel("headrace_produce", c_int64, c_void_p)
        self._produce_by_key = kernel("headrace_produce_by_key", c_int64, c_void_p)
        self._produce_batch, self._topic, self._flags = produce_batch, topic, flags

    def produce(self, values: pa.Array, keys: pa.Array | None, partition: int) -> int:
        """Queues n records in order: to `partition`, or if it is -1 to the partitions that librdkafka chooses. Returns
        0, or the error code of the first record that librdkafka rejects; some of the records after it may be queued.

        values, keys: Arrow binary or string columns of length n; NULL is a tombstone, or a record without a key
        """
        state = self._state(values, keys)
        state.partition = partition
        return _outcome(state, self._produce(ctypes.addressof(state)))

    def produce_by_key(self, values: pa.Array, keys: pa.Array, partitions: int) -> int:
        """Queues n records in the partitions of their keys; records of one partition in order. librdkafka chooses the
        partition of a record without a key. Arguments and result otherwise as `produce`.

        partitions: how many the topic has
        """
        state = self._state(values, keys)
        count = len(values)
        chosen, rows, ends = np.empty(count, np.int32), np.empty(count, np.int32), np.empty(partitions + 2, np.int64)
        state.partitions = partitions
        state.chosen, state.rows, state.ends = chosen.ctypes.data, rows.ctypes.data, ends.ctypes.data
        return _outcome(state, self._produce_by_key(ctypes.addressof(state)))

    def _state(self, values: pa.Array, keys: pa.Array | None) -> _Produce:
        count = len(values)
        value_column, key_column = binary_column(values), binary_column(keys)
        assert value_column is not None, f"values are bytes, not {values.type}"
        assert key_column is not None, "keys are bytes"
        assert keys is None or len(keys) == count, "keys and values are columns of the same records"
        assert count < _ROWS_MAX, "rows are numbered with 32 bits"
        return _Produce(value_column, key_column, count, self._produce_batch, self._topic, self._flags)


def _outcome(state: _Produce, queued: int) -> int:
    assert queued == state.count or state.error, "offsets of a column lie within its data"
    return int(state.error)


def produce_kernel(produce_batch: int, topic: int, flags: int) -> ProduceKernel | None:
    """The kernel for one topic; None where kernels are off or missing."""
    return ProduceKernel(produce_batch, topic, flags) if is_loaded() else None


def delivery_counter() -> int | None:
    """Address of a delivery report callback that counts in a `Deliveries`, which is the client's opaque pointer; None
    where kernels are off or missing."""
    found = library()
    return None if found is None else ctypes.cast(found.headrace_count_delivery, c_void_p).value
