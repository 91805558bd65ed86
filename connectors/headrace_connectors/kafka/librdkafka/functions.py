"""The C functions of confluent-kafka's bundled librdkafka, called for whole batches without a Python object per record.

Declares only functions of the public C interface that `NativeProducer` and `NativeConsumer` call. Imports nothing of
headrace, and does not check the loaded library: `native_library` does.
"""

from __future__ import annotations

import ctypes
import sys
from ctypes import CFUNCTYPE, POINTER, Structure, c_char_p, c_int, c_int32, c_int64, c_size_t, c_ssize_t, c_void_p
from pathlib import Path

import confluent_kafka
import numpy as np

PRODUCER, CONSUMER = 0, 1
CONF_OK = 0
ANY_PARTITION = -1
"""`RD_KAFKA_PARTITION_UA`: the library chooses."""
COPY_PAYLOAD = 0x2
PARTITION_OF_EACH = 0x8
PURGE_QUEUED, PURGE_IN_FLIGHT, PURGE_NON_BLOCKING = 0x1, 0x2, 0x4
ERROR_TEXT_BYTES = 512

MESSAGE = np.dtype(
    [
        ("err", "<i4"),
        ("pad0", "<i4"),
        ("topic", "<u8"),
        ("partition", "<i4"),
        ("pad1", "<i4"),
        ("payload", "<u8"),
        ("len", "<u8"),
        ("key", "<u8"),
        ("key_len", "<u8"),
        ("offset", "<i8"),
        ("private", "<u8"),
    ]
)
"""`rd_kafka_message_t` of a 64-bit little-endian machine."""

DELIVERY_CALLBACK = CFUNCTYPE(None, c_void_p, c_void_p, c_void_p)
ERROR_CALLBACK = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_void_p)
LOG_CALLBACK = CFUNCTYPE(None, c_void_p, c_int, c_char_p, c_char_p)
COMMIT_CALLBACK = CFUNCTYPE(None, c_void_p, c_int, c_void_p, c_void_p)


class _TopicMetadata(Structure):
    _fields_ = (("topic", c_char_p), ("partition_count", c_int), ("partitions", c_void_p), ("err", c_int))


class Metadata(Structure):
    """`rd_kafka_metadata_t`."""

    _fields_ = (
        ("broker_count", c_int),
        ("brokers", c_void_p),
        ("topic_count", c_int),
        ("topics", POINTER(_TopicMetadata)),
        ("origin_id", c_int32),
        ("origin_name", c_char_p),
    )


class TopicPartition(Structure):
    """`rd_kafka_topic_partition_t`."""

    _fields_ = (
        ("topic", c_char_p),
        ("partition", c_int32),
        ("offset", c_int64),
        ("metadata", c_void_p),
        ("metadata_size", c_size_t),
        ("opaque", c_void_p),
        ("err", c_int),
        ("private", c_void_p),
    )


class TopicPartitionList(Structure):
    """`rd_kafka_topic_partition_list_t`."""

    _fields_ = (("count", c_int), ("size", c_int), ("items", POINTER(TopicPartition)))


_FUNCTIONS = {
    "rd_kafka_version": (c_int, ()),
    "rd_kafka_conf_new": (c_void_p, ()),
    "rd_kafka_conf_destroy": (None, (c_void_p,)),
    "rd_kafka_conf_set": (c_int, (c_void_p, c_char_p, c_char_p, c_char_p, c_size_t)),
    "rd_kafka_conf_set_dr_msg_cb": (None, (c_void_p, DELIVERY_CALLBACK)),
    "rd_kafka_conf_set_opaque": (None, (c_void_p, c_void_p)),
    "rd_kafka_conf_set_error_cb": (None, (c_void_p, ERROR_CALLBACK)),
    "rd_kafka_conf_set_log_cb": (None, (c_void_p, LOG_CALLBACK)),
    "rd_kafka_new": (c_void_p, (c_int, c_void_p, c_char_p, c_size_t)),
    "rd_kafka_set_log_queue": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_topic_new": (c_void_p, (c_void_p, c_char_p, c_void_p)),
    "rd_kafka_topic_destroy": (None, (c_void_p,)),
    "rd_kafka_destroy": (None, (c_void_p,)),
    "rd_kafka_produce_batch": (c_int, (c_void_p, c_int32, c_int, c_void_p, c_int)),
    "rd_kafka_poll": (c_int, (c_void_p, c_int)),
    "rd_kafka_flush": (c_int, (c_void_p, c_int)),
    "rd_kafka_purge": (c_int, (c_void_p, c_int)),
    "rd_kafka_outq_len": (c_int, (c_void_p,)),
    "rd_kafka_fatal_error": (c_int, (c_void_p, c_char_p, c_size_t)),
    "rd_kafka_err2str": (c_char_p, (c_int,)),
    "rd_kafka_init_transactions": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_begin_transaction": (c_void_p, (c_void_p,)),
    "rd_kafka_abort_transaction": (c_void_p, (c_void_p, c_int)),
    "rd_kafka_error_code": (c_int, (c_void_p,)),
    "rd_kafka_error_string": (c_char_p, (c_void_p,)),
    "rd_kafka_error_is_fatal": (c_int, (c_void_p,)),
    "rd_kafka_error_is_retriable": (c_int, (c_void_p,)),
    "rd_kafka_error_destroy": (None, (c_void_p,)),
    "rd_kafka_metadata": (c_int, (c_void_p, c_int, c_void_p, POINTER(POINTER(Metadata)), c_int)),
    "rd_kafka_metadata_destroy": (None, (POINTER(Metadata),)),
    "rd_kafka_conf_set_offset_commit_cb": (None, (c_void_p, COMMIT_CALLBACK)),
    "rd_kafka_poll_set_consumer": (c_int, (c_void_p,)),
    "rd_kafka_queue_get_consumer": (c_void_p, (c_void_p,)),
    "rd_kafka_queue_destroy": (None, (c_void_p,)),
    "rd_kafka_consume_batch_queue": (c_ssize_t, (c_void_p, c_int, c_void_p, c_size_t)),
    "rd_kafka_last_error": (c_int, ()),
    "rd_kafka_message_errstr": (c_char_p, (c_void_p,)),
    # only a kernel calls these four
    "rd_kafka_message_destroy": (None, (c_void_p,)),
    "rd_kafka_message_timestamp": (c_int64, (c_void_p, c_void_p)),
    "rd_kafka_message_headers": (c_int, (c_void_p, c_void_p)),
    "rd_kafka_header_get_all": (c_int, (c_void_p, c_size_t, c_void_p, c_void_p, c_void_p)),
    "rd_kafka_topic_name": (c_char_p, (c_void_p,)),
    "rd_kafka_topic_partition_list_new": (POINTER(TopicPartitionList), (c_int,)),
    "rd_kafka_topic_partition_list_add": (POINTER(TopicPartition), (POINTER(TopicPartitionList), c_char_p, c_int32)),
    "rd_kafka_topic_partition_list_set_offset": (
        c_int,
        (POINTER(TopicPartitionList), c_char_p, c_int32, c_int64),
    ),
    "rd_kafka_topic_partition_list_destroy": (None, (POINTER(TopicPartitionList),)),
    "rd_kafka_incremental_assign": (c_void_p, (c_void_p, POINTER(TopicPartitionList))),
    "rd_kafka_incremental_unassign": (c_void_p, (c_void_p, POINTER(TopicPartitionList))),
    "rd_kafka_pause_partitions": (c_int, (c_void_p, POINTER(TopicPartitionList))),
    "rd_kafka_resume_partitions": (c_int, (c_void_p, POINTER(TopicPartitionList))),
    "rd_kafka_commit": (c_int, (c_void_p, POINTER(TopicPartitionList), c_int)),
    "rd_kafka_query_watermark_offsets": (
        c_int,
        (c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64), c_int),
    ),
    "rd_kafka_get_watermark_offsets": (c_int, (c_void_p, c_char_p, c_int32, POINTER(c_int64), POINTER(c_int64))),
    "rd_kafka_consumer_close": (c_int, (c_void_p,)),
}


def loaded() -> ctypes.CDLL | None:
    """The library with typed functions; None without it, without one of the functions, or on a machine that is not
    64-bit little-endian."""
    if sys.maxsize < 1 << 62 or sys.byteorder != "little" or ctypes.sizeof(c_ssize_t) != 8:
        return None
    for path in _candidates():
        try:
            found = ctypes.CDLL(str(path))
            for name, (result, arguments) in _FUNCTIONS.items():
                function = getattr(found, name)
                function.restype, function.argtypes = result, arguments
        except (OSError, AttributeError):
            continue
        return found
    return None


def _candidates() -> list[Path]:
    """Where wheels put the bundled library: beside the package on Linux, inside it on macOS."""
    package = Path(confluent_kafka.__file__).parent
    linux = (package.parent / "confluent_kafka.libs").glob("librdkafka-*.so*")
    return sorted([*linux, *(package / ".dylibs").glob("librdkafka*.dylib")])
