"""Object stores for checkpoints: named bytes that are written whole, and one conditional put.

Owns the contract and which store a URL gets. What is in the objects, and what they are called, is not known here.

    file:///folder, /folder    `file_store`: link(2) decides who was first
    s3://bucket/prefix         `s3_store`: If-None-Match decides
    any other scheme           `foreign`: for savepoints only, for it has no put-if-absent that is known to hold
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from headrace.checkpoint.paths import absolute, parted
from headrace.core.errors import ExternalError, UserError

_CONDITIONAL = {"file", "s3"}

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


OpenFolder = Callable[[str], ObjectStore]
"""Opens the folder of a URL."""


def open_store(url: str) -> ObjectStore:
    """The store of a URL, or of a path on this host, that can hold checkpoints. Creates nothing.

    Raises UserError for a scheme without a conditional put.
    """
    if _scheme(url) in _CONDITIONAL:
        return open_folder(url)
    raise UserError(
        f"checkpoints cannot be kept at {url}: that scheme has no put-if-absent that is known to hold",
        remedy="use a folder (a path or file://..) or s3://bucket/prefix as checkpoint storage",
    )


def open_folder(url: str) -> ObjectStore:
    """The store of any URL that fsspec knows, or of a path on this host: enough for savepoints."""
    match _scheme(url):
        case "file":
            from headrace.checkpoint.stores.file import FileStore

            return FileStore(absolute(url))
        case "s3":
            from headrace.checkpoint.stores.s3 import S3Store

            return S3Store(url)
        case _:
            from headrace.checkpoint.stores.fsspec_folder import ForeignStore

            return ForeignStore(url)


def read_url(url: str) -> bytes:
    """One object by its URL or path, of any scheme that fsspec knows. Raises ObjectMissing."""
    folder, name = parted(absolute(url))
    return open_folder(folder).read(name)


def _scheme(url: str) -> str:
    return url.partition("://")[0] if "://" in url else "file"
