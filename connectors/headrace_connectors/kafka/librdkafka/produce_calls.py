"""Queues columns of records with rd_kafka_produce_batch: a kernel fills the messages, or numpy if kernels are off."""

from __future__ import annotations

import ctypes
from ctypes import c_void_p
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from headrace.core.arrow_arrays import mask_of
from headrace.kernels.kafka.produce import produce_kernel
from headrace_connectors.kafka.librdkafka.functions import ANY_PARTITION, COPY_PAYLOAD, MESSAGE


class ProduceCalls(Protocol):
    """Queues records of one topic."""

    def produce(self, values: pa.Array, keys: pa.Array | None, partition: int) -> int:
        """Queues records in order: to `partition`, or if it is -1 to the partitions of their keys. Returns 0, or the
        error code of the first record that the library rejects; some of the records after it may be queued.

        values, keys: Arrow large_binary; NULL is a tombstone, or a record without a key
        """
        ...

    def produce_by_key(self, values: pa.Array, keys: pa.Array, partitions: int) -> int:
        """Queues records to the partitions of their keys; records of one partition in order. Otherwise as `produce`.

        partitions: how many the topic has
        """
        ...


def produce_calls(library: ctypes.CDLL, topic: int) -> ProduceCalls:
    """The calls for the topic with this handle."""
    address = ctypes.cast(library.rd_kafka_produce_batch, c_void_p).value or 0
    return produce_kernel(address, topic, COPY_PAYLOAD) or ArrayCalls(library, topic)


class ArrayCalls:
    """One call for all records; numpy fills the messages."""

    def __init__(self, library: ctypes.CDLL, topic: int) -> None:
        self._lib, self._topic = library, topic

    def produce(self, values: pa.Array, keys: pa.Array | None, partition: int) -> int:
        """See ProduceCalls."""
        count = len(values)
        messages = np.zeros(count, MESSAGE)
        messages["payload"], messages["len"] = _pointers(values)
        if keys is not None:
            messages["key"], messages["key_len"] = _pointers(keys)
        place = messages.ctypes.data
        if self._lib.rd_kafka_produce_batch(self._topic, partition, COPY_PAYLOAD, place, count) == count:
            return 0
        codes = messages["err"]
        return int(codes[codes != 0][0])

    def produce_by_key(self, values: pa.Array, keys: pa.Array, partitions: int) -> int:
        """See ProduceCalls. The library knows the number of partitions, and chooses the same ones."""
        return self.produce(values, keys, ANY_PARTITION)


def _pointers(column: pa.Array) -> tuple[npt.NDArray[np.uint64], npt.NDArray[np.uint64]]:
    """Address and length of each value of a large_binary column; NULL has address 0."""
    assert pa.types.is_large_binary(column.type), f"values are large_binary, not {column.type}"
    count = len(column)
    _, offset_buffer, data = column.buffers()
    offsets = np.frombuffer(offset_buffer, np.int64, count + 1, column.offset * 8)
    base = 0 if data is None else data.address
    # an empty value is not NULL: it needs an address even in a column without data
    starts = offsets[:-1].astype(np.uint64) + np.uint64(base or offset_buffer.address)
    lengths = (offsets[1:] - offsets[:-1]).astype(np.uint64)
    if column.null_count:
        missing = mask_of(column.is_null())
        starts[missing], lengths[missing] = 0, 0
    return starts, lengths
