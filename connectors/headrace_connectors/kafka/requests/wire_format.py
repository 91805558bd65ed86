"""Kafka's wire format: the primitive types, in the old and in the flexible (compact, tagged; KIP-482) form. Pure.

A message version is flexible or not. A `MessageWriter` and a `MessageReader` handle one form, and know nothing of
messages. https://kafka.apache.org/protocol#protocol_types
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from typing import TypeVar

ITEMS_MAX = 10_000_000
"""Most items of an array: a greater count means a malformed message."""

T = TypeVar("T")


class MalformedAnswerError(Exception):
    """The bytes are not a message of the expected version."""


class MessageWriter:
    """Appends values to one message."""

    def __init__(self, *, flexible: bool) -> None:
        self.flexible = flexible
        self._parts: list[bytes] = []

    def int8(self, value: int) -> None:
        """One signed byte."""
        self._parts.append(struct.pack(">b", value))

    def int16(self, value: int) -> None:
        """Two bytes, big-endian like all numbers."""
        self._parts.append(struct.pack(">h", value))

    def int32(self, value: int) -> None:
        """Four bytes."""
        self._parts.append(struct.pack(">i", value))

    def int64(self, value: int) -> None:
        """Eight bytes."""
        self._parts.append(struct.pack(">q", value))

    def boolean(self, value: bool) -> None:  # noqa: FBT001 - a value, not a switch
        """One byte."""
        self.int8(int(value))

    def string(self, value: str | None) -> None:
        """UTF-8 with a length prefix; None is NULL."""
        raw = None if value is None else value.encode()
        if self.flexible:
            self._compact(raw)
        else:
            self.int16(-1 if raw is None else len(raw))
            self._parts.append(raw or b"")

    def bytes_(self, value: bytes) -> None:
        """Bytes with a length prefix."""
        if self.flexible:
            self._compact(value)
        else:
            self.int32(len(value))
            self._parts.append(value)

    def array(self, items: Sequence[T], write: Callable[[T], None]) -> None:
        """A count, then each item."""
        if self.flexible:
            self.varint(len(items) + 1)
        else:
            self.int32(len(items))
        for item in items:
            write(item)

    def end_struct(self) -> None:
        """The tagged fields at the end of a struct: none. Writes nothing in the old form."""
        if self.flexible:
            self.varint(0)

    def varint(self, value: int) -> None:
        """An unsigned number, seven bits per byte."""
        raw = bytearray()
        while value > 0x7F:
            raw.append(value & 0x7F | 0x80)
            value >>= 7
        raw.append(value)
        self._parts.append(bytes(raw))

    def _compact(self, raw: bytes | None) -> None:
        # compact lengths are one greater, so that 0 is NULL
        self.varint(0 if raw is None else len(raw) + 1)
        self._parts.append(raw or b"")

    def content(self) -> bytes:
        """The bytes written."""
        return b"".join(self._parts)


class MessageReader:
    """Reads values of one message from the front. Every method raises MalformedAnswerError at a premature end."""

    def __init__(self, content: bytes, *, flexible: bool) -> None:
        self.flexible = flexible
        self._content = content
        self._at = 0

    def int8(self) -> int:
        """One signed byte."""
        return self._number(">b", 1)

    def int16(self) -> int:
        """Two bytes."""
        return self._number(">h", 2)

    def int32(self) -> int:
        """Four bytes."""
        return self._number(">i", 4)

    def int64(self) -> int:
        """Eight bytes."""
        return self._number(">q", 8)

    def boolean(self) -> bool:
        """One byte."""
        return self.int8() != 0

    def string(self) -> str:
        """Text; NULL is read as empty."""
        return self.nullable_string() or ""

    def nullable_string(self) -> str | None:
        """Text, or None for NULL."""
        length = self.varint() - 1 if self.flexible else self.int16()
        if length < 0:
            return None
        try:
            return self._take(length).decode()
        except UnicodeDecodeError as cause:
            raise MalformedAnswerError("a text is no UTF-8") from cause

    def bytes_(self) -> bytes:
        """Bytes; NULL is read as empty."""
        length = self.varint() - 1 if self.flexible else self.int32()
        return self._take(max(length, 0))

    def array(self, read: Callable[[], T]) -> list[T]:
        """Items; NULL is read as empty."""
        count = self.varint() - 1 if self.flexible else self.int32()
        if count > ITEMS_MAX:
            raise MalformedAnswerError(f"an array of {count} items")
        return [read() for _ in range(max(count, 0))]

    def end_struct(self) -> None:
        """Skips the tagged fields at the end of a struct. Reads nothing in the old form."""
        if self.flexible:
            for _ in range(self.varint()):
                self.varint()
                self._take(self.varint())

    def varint(self) -> int:
        """An unsigned number."""
        value = 0
        for shift in range(0, 35, 7):
            (byte,) = self._take(1)
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                return value
        raise MalformedAnswerError("a number is longer than five bytes")

    def _number(self, layout: str, size: int) -> int:
        (value,) = struct.unpack(layout, self._take(size))
        return int(value)

    def _take(self, size: int) -> bytes:
        taken = self._content[self._at : self._at + size]
        if len(taken) < size:
            raise MalformedAnswerError(f"{size} bytes are wanted at {self._at}, {len(taken)} are left")
        self._at += size
        return taken
