"""Object stores for checkpoints: named bytes that are written whole, and one conditional put. The contract only.

What is in the objects, and what they are called, is not known here.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from headrace.core.errors import ExternalError

Data = bytes | bytearray | memoryview


class ObjectMissing(ExternalError):  # noqa: N818 - reads as the sentence it is
    """There is no object of that name."""


@dataclass(frozen=True, slots=True)
class StoredObject:
    """One object. path: relative to the store's URL; modified_ms: by the store's clock (epoch ms)."""

    path: str
    bytes: int
    modified_ms: int


class ObjectStore(Protocol):
    """A folder of objects. Safe to use from several threads. Errors are ExternalError, most of them worth a retry."""

    @property
    def url(self) -> str:
        """What it was opened with, absolute, without a slash at the end."""
        ...

    def put_if_absent(self, path: str, data: Data) -> bool:
        """Writes the object, whole and durable, unless there is one. False: there is, and nothing was changed.

        After an ExternalError it may or may not have been written.
        """
        ...

    def write(self, path: str, data: Data) -> None:
        """Writes an object of a unique name, whole and durable."""
        ...

    def read(self, path: str) -> bytes:
        """The whole object. Raises ObjectMissing."""
        ...

    def list(self, prefix: str) -> list[str]:
        """Paths (relative to `url`) that begin with `prefix`, recursively, sorted. Nothing there: empty."""
        ...

    def objects(self, prefix: str) -> Iterable[StoredObject]:
        """As `list`, with sizes and times."""
        ...

    def leftovers(self) -> Iterable[StoredObject]:
        """What writes left behind that were interrupted, or are under way: no objects. `delete` takes their paths."""
        ...

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes objects, in that order as far as the store has one; missing ones are fine."""
        ...
