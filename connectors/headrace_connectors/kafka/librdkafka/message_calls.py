"""Calls of librdkafka that take one message each, over many messages."""

from __future__ import annotations

import ctypes
from collections import deque
from itertools import repeat

import numpy as np

from headrace.connect.source import Offsets
from headrace_connectors.kafka.librdkafka.native_messages import Addresses


class MessageCalls:
    """Short calls: they keep the interpreter's lock, which letting go of costs more than they do."""

    def __init__(self, library: ctypes.CDLL) -> None:
        held = ctypes.PyDLL(library._name)
        self._destroy = held.rd_kafka_message_destroy
        self._destroy.restype, self._destroy.argtypes = None, (ctypes.c_void_p,)
        self._timestamp = held.rd_kafka_message_timestamp
        self._timestamp.restype, self._timestamp.argtypes = ctypes.c_int64, (ctypes.c_void_p, ctypes.c_void_p)

    def destroy(self, addresses: Addresses) -> None:
        """Releases messages."""
        deque(map(self._destroy, addresses.tolist()), maxlen=0)

    def timestamps(self, addresses: Addresses) -> Offsets:
        """Epoch ms of each message; -1 where it has none."""
        kind = ctypes.c_int()
        stamps = map(self._timestamp, addresses.tolist(), repeat(ctypes.addressof(kind)))
        return np.fromiter(stamps, np.int64, len(addresses))
