"""Reads the credentials that YARN puts beside a container (Hadoop's token storage, `HADOOP_TOKEN_FILE_LOCATION`). Pure.

    HDTS 0 <count> {alias identifier password kind service} <count> {alias secret}

Counts and lengths are Hadoop's variable-length integers. Source: `org.apache.hadoop.security.Credentials`.
"""

from __future__ import annotations

from collections.abc import Mapping

from headrace.core.errors import ExternalError

_MAGIC, _WRITABLE = b"HDTS", 0
_TOKEN_FIELDS = 5


def secrets_of(data: bytes) -> Mapping[str, bytes]:
    """The secrets by alias. Raises ExternalError for data of another format."""
    if data[:4] != _MAGIC or data[4:5] != bytes([_WRITABLE]):
        raise ExternalError("the container's credentials have an unknown format", remedy="HADOOP_TOKEN_FILE_LOCATION")
    reader = _Reader(data, len(_MAGIC) + 1)
    try:
        for _ in range(reader.number() * _TOKEN_FIELDS):
            reader.text()
        return {reader.text().decode(): reader.text() for _ in range(reader.number())}
    except (IndexError, UnicodeDecodeError) as error:
        raise ExternalError("the container's credentials are damaged") from error


class _Reader:
    def __init__(self, data: bytes, at: int) -> None:
        self._data = data
        self._at = at

    def number(self) -> int:
        """A variable-length integer: one byte from -112 to 127, or a byte with the count of those that follow."""
        first = int.from_bytes(self._bytes(1), "big", signed=True)
        if first >= -112:
            return first
        is_negative = first < -120
        value = int.from_bytes(self._bytes(-120 - first if is_negative else -112 - first), "big")
        return ~value if is_negative else value

    def text(self) -> bytes:
        """Bytes after their length."""
        return self._bytes(self.number())

    def _bytes(self, count: int) -> bytes:
        end = self._at + count
        if count < 0 or end > len(self._data):
            raise IndexError(end)
        found = self._data[self._at : end]
        self._at = end
        return found
