"""The contract of object stores for checkpoints: named bytes that are written whole, and one conditional put.

Knows neither the content nor the names of objects.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from headrace.core.errors import ExternalError

Data = bytes | bytearray | memoryview


class ObjectNotFoundError(ExternalError):
    """There is no object with this name."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object. path: relative to the store's URL; modified_ms: by the store's clock (epoch ms)."""

    path: str
    bytes: int
    modified_ms: int


class ObjectStore(Protocol):
    """A folder of objects. Thread-safe. Errors are ExternalError, most of them with `retry`."""

    @property
    def url(self) -> str:
        """The URL it was opened with, absolute, without a trailing slash."""
        ...

    def put_if_absent(self, path: str, data: Data) -> bool:
        """Writes the object, whole and durable, unless it exists. Returns False if it exists; it is not changed then.

        After an ExternalError the object may or may not have been written.
        """
        ...

    def write(self, path: str, data: Data) -> None:
        """Writes an object under a unique name, whole and durable."""
        ...

    def read(self, path: str) -> bytes:
        """The whole object. Raises ObjectNotFoundError."""
        ...

    def read_range(self, path: str, offset: int, *, length: int) -> bytes:
        """`length` bytes of the object from `offset` on; fewer if it ends before. Raises ObjectNotFoundError."""
        ...

    def list(self, prefix: str) -> list[str]:
        """Paths (relative to `url`) that begin with `prefix`, recursively, sorted; empty if there are none."""
        ...

    def objects(self, prefix: str) -> Iterable[StoredObject]:
        """As `list`, with sizes and times."""
        ...

    def leftovers(self) -> Iterable[StoredObject]:
        """Temporary files of writes that were interrupted or are in progress. They are not objects; `delete` accepts
        their paths."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes objects, in this order where the store deletes one by one; ignores missing ones."""
        ...
