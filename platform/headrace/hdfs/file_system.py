"""HDFS as a file system of fsspec, for code that needs one: listing, ranged reads, whole writes. Wraps fsspec."""

from __future__ import annotations

import errno
import secrets
from collections.abc import Callable
from io import UnsupportedOperation
from typing import Any, TypeVar

from fsspec.spec import AbstractBufferedFile, AbstractFileSystem

from headrace.hdfs.connection import Entry, HdfsConnection, open_hdfs
from headrace.hdfs.refusals import HdfsError, Kind

_ERRNO = {Kind.MISSING: errno.ENOENT, Kind.DENIED: errno.EACCES, Kind.QUOTA: errno.EDQUOT}
T = TypeVar("T")


class HdfsFileSystem(AbstractFileSystem):  # type: ignore[misc]
    """One file system. A file is written as a whole, under a temporary name first. Raises OSError."""

    protocol = ("hdfs", "webhdfs", "swebhdfs")
    cachable = False

    def __init__(self, url: str) -> None:
        super().__init__()
        self.connection, self.root = open_hdfs(url)

    def ls(self, path: str, *, detail: bool = True, **ignored: object) -> list[Any]:
        """The entries of a folder; none if it does not exist."""
        entries = _called(path, lambda: self.connection.entries(path))
        found = [_described(f"{path.rstrip('/')}/{entry.name}", entry) for entry in entries]
        return found if detail else [each["name"] for each in found]

    def info(self, path: str, **ignored: object) -> dict[str, object]:
        """One file or folder."""
        return _described(path, _called(path, lambda: self.connection.status(path)))

    def makedirs(self, path: str, *, exist_ok: bool = False) -> None:
        """Creates a folder and those above it. One that exists is no error."""
        del exist_ok
        _called(path, lambda: self.connection.make_folder(path))

    def pipe_file(self, path: str, value: bytes, mode: str = "overwrite", **ignored: object) -> None:
        """Writes a file, whole and on disk. A file of this name stays as it is, since its content is the same."""
        del mode
        folder, _, name = path.rpartition("/")
        temporary = f"{folder}/.tmp-{secrets.token_hex(8)}-{name}"

        def put() -> None:
            self.connection.create(temporary, memoryview(value))
            if self.connection.rename(temporary, path) is False:
                self.connection.delete(temporary)

        _called(path, put)

    def _open(
        self, path: str, mode: str = "rb", block_size: int | None = None, **ignored: object
    ) -> AbstractBufferedFile:
        if mode != "rb":
            raise UnsupportedOperation(f"mode {mode!r}: files are written whole")
        return _File(self, path, mode, block_size or "default")


class _File(AbstractBufferedFile):  # type: ignore[misc]
    """A file that is read in ranges."""

    def _fetch_range(self, start: int, end: int) -> bytes:
        connection: HdfsConnection = self.fs.connection
        return _called(self.path, lambda: connection.read(self.path, offset=start, length=end - start))


def _called(path: str, call: Callable[[], T]) -> T:
    try:
        return call()
    except HdfsError as error:
        number = errno.EIO if error.kind is None else _ERRNO.get(error.kind, errno.EIO)
        # OSError becomes FileNotFoundError, PermissionError, .. by its number
        raise OSError(number, error.message, path) from error


def _described(path: str, entry: Entry) -> dict[str, object]:
    kind = "directory" if entry.is_folder else "file"
    return {"name": path, "size": entry.bytes, "type": kind, "mtime": entry.modified_ms / 1000}
