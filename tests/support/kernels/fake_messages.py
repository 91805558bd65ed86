"""Messages as librdkafka lays them out, in guarded memory, and functions of its kind that count their calls."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from ctypes import CFUNCTYPE, POINTER, c_char_p, c_int, c_int64, c_size_t, c_void_p
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from headrace.kernels.kafka.take import MessageFunctions
from headrace_connectors.kafka.librdkafka.functions import MESSAGE
from support.kernels.guarded import Guarded, guarded_copy

NO_HEADERS = -156
"""`RD_KAFKA_RESP_ERR__NOENT`."""


@dataclass(frozen=True)
class Record:
    """What a message has."""

    value: bytes | None = b""
    key: bytes | None = None
    topic: int = 1
    partition: int = 0
    offset: int = 0
    error: int = 0
    timestamp: int = -1
    headers: Sequence[tuple[bytes, bytes | None]] = ()


@dataclass
class FakeMessages:
    """Messages of these records. `released`: the indices of those that were, in order."""

    records: Sequence[Record]
    released: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._memory: list[Guarded] = []
        self._index: dict[int, int] = {}
        addresses = []
        for number, record in enumerate(self.records):
            struct = np.zeros(1, MESSAGE)
            struct["err"], struct["topic"], struct["partition"] = record.error, record.topic, record.partition
            struct["offset"], struct["pad0"], struct["pad1"] = record.offset, -1, -1
            struct["payload"], struct["len"] = self._placed(record.value)
            struct["key"], struct["key_len"] = self._placed(record.key)
            memory = guarded_copy(struct.tobytes())
            self._memory.append(memory)
            self._index[memory.address] = number
            addresses.append(memory.address)
        self.addresses: npt.NDArray[np.uint64] = np.array(addresses, np.uint64)
        self._release = CFUNCTYPE(None, c_void_p)(lambda at: self.released.append(self._index[at]))
        self._timestamp = CFUNCTYPE(c_int64, c_void_p, c_void_p)(lambda at, _: self._record(at).timestamp)
        self._headers = CFUNCTYPE(c_int, c_void_p, POINTER(c_void_p))(self._on_headers)
        self._header = CFUNCTYPE(c_int, c_void_p, c_size_t, POINTER(c_char_p), POINTER(c_void_p), POINTER(c_size_t))(
            self._on_header
        )

    def functions(self, *, timestamps: bool = False, headers: bool = False) -> MessageFunctions:
        """Their addresses, as a kernel takes them."""

        def address(function: object) -> int:
            return ctypes.cast(function, c_void_p).value or 0  # type: ignore[arg-type]

        return MessageFunctions(
            address(self._release),
            address(self._timestamp) if timestamps else 0,
            address(self._headers) if headers else 0,
            address(self._header) if headers else 0,
        )

    def _placed(self, value: bytes | None) -> tuple[int, int]:
        if value is None:
            return 0, 0
        memory = guarded_copy(value)
        self._memory.append(memory)
        return memory.address, len(value)

    def _record(self, address: int) -> Record:
        assert self._index[address] not in self.released, "a message is read after its release"
        return self.records[self._index[address]]

    def _on_headers(self, address: int, headers: ctypes._Pointer[c_void_p]) -> int:
        if not self._record(address).headers:
            return NO_HEADERS
        headers[0] = c_void_p(address)
        return 0

    def _on_header(
        self,
        address: int,
        index: int,
        name: ctypes._Pointer[c_char_p],
        value: ctypes._Pointer[c_void_p],
        size: ctypes._Pointer[c_size_t],
    ) -> int:
        headers = self._record(address).headers
        if index >= len(headers):
            return NO_HEADERS
        key, content = headers[index]
        placed = guarded_copy(key + b"\0")
        self._memory.append(placed)
        ctypes.cast(name, POINTER(c_void_p))[0] = c_void_p(placed.address)
        at, length = self._placed(content)
        value[0], size[0] = c_void_p(at), c_size_t(length)
        return 0
