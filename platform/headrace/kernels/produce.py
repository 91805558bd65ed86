"""Queues rows of Arrow columns in librdkafka, and counts its delivery reports: `c/produce.c`."""

from __future__ import annotations

import ctypes
from ctypes import c_int32, c_int64, c_void_p

import pyarrow as pa

from headrace.kernels.binary_column import BinaryColumn, binary_column
from headrace.kernels.library import Kernel, kernel, library


class _Produce(ctypes.Structure):
    _fields_ = (
        ("values", BinaryColumn),
        ("keys", BinaryColumn),
        ("count", c_int64),
        ("produce_batch", c_void_p),
        ("topic", c_void_p),
        ("partition", c_int32),
        ("flags", c_int32),
        ("error", c_int64),
    )


class Deliveries(ctypes.Structure):
    """`deliveries_t`: how many records failed, and the first one's error code. Outlives the client that writes it."""

    _fields_ = (("failed", c_int64), ("first_error", c_int64))


class ProduceKernel:
    """Queues records in one topic. Whoever ends the client waits until no call runs.

    produce_batch   address of rd_kafka_produce_batch
    topic           address of the topic's handle
    flags           those of rd_kafka_produce_batch; they have it copy payloads
    """

    def __init__(self, call: Kernel, produce_batch: int, topic: int, flags: int) -> None:
        self._call = call
        self._produce_batch, self._topic, self._flags = produce_batch, topic, flags

    def produce(self, values: pa.Array, keys: pa.Array | None, partition: int) -> int:
        """Queues n records in order, to `partition` or, where it is -1, to those of their keys. Returns 0, or the error
        code of the first record that librdkafka refuses: of the records behind it, some may be queued.

        values, keys: Arrow binary or string columns of length n; NULL is a tombstone, or a record without a key
        """
        count = len(values)
        value_column, key_column = binary_column(values), binary_column(keys)
        assert value_column is not None, f"values are bytes, not {values.type}"
        assert key_column is not None, "keys are bytes"
        assert keys is None or len(keys) == count, "keys and values are columns of the same records"
        state = _Produce(value_column, key_column, count, self._produce_batch, self._topic, partition, self._flags)
        queued = self._call(ctypes.addressof(state))
        assert queued == count or state.error, "offsets of a column lie within its data"
        return int(state.error)


def produce_kernel(produce_batch: int, topic: int, flags: int) -> ProduceKernel | None:
    """The kernel for one topic; None where kernels are off or missing."""
    call = kernel("headrace_produce", c_int64, c_void_p)
    return None if call is None else ProduceKernel(call, produce_batch, topic, flags)


def delivery_counter() -> int | None:
    """Address of a delivery report callback whose opaque is a Deliveries; None where kernels are off or missing."""
    found = library()
    return None if found is None else ctypes.cast(found.headrace_count_delivery, c_void_p).value
