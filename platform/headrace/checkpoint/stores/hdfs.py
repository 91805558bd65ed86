"""Objects as files of HDFS, over WebHDFS: rename without overwrite is the put-if-absent.

    write: temporary file beside the target, on disk ─> rename to the target's name
                                                         └─ the name is taken: another writer was first

The NameNode does one rename after the other and replaces nothing (`Options.Rename.NONE`), so exactly one of all writers
gets the name, and a name is never visible before its whole content is on disk. A plain create would show an empty file
first. A process that dies in between leaves a temporary file, which is not an object (`leftovers`).

An answer of a rename may be lost. If an earlier try may have taken the name, the put returns False ("it exists"), as
that of S3 does. A caller that must know whether the object is its own reads it (journal records contain their writer's
token).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NoReturn

from headrace.checkpoint.stores.store import Data, ObjectNotFoundError, StoredObject
from headrace.checkpoint.unique_names import unique_part
from headrace.core.errors import ExternalError, InternalError
from headrace.hdfs.connection import open_hdfs
from headrace.hdfs.refusals import HdfsError, Kind

_TEMPORARY = ".tmp-"


class HdfsStore:
    """A folder of HDFS, created with the first object."""

    def __init__(self, url: str) -> None:
        self._files, self._root = open_hdfs(url)
        self._url = url.rstrip("/")

    @property
    def url(self) -> str:
        """The URL it was opened with."""
        return self._url

    def put_if_absent(self, path: str, data: Data) -> bool:
        """Writes the file unless the name is taken."""
        return self._put(path, data) is True

    def write(self, path: str, data: Data) -> None:
        """Writes a file under a new name."""
        # None: the name is unique, so it was an earlier try of this call that has taken it
        if self._put(path, data) is False:
            raise InternalError(f"{self._url}/{path} was to be written once, and is there already")

    def read(self, path: str) -> bytes:
        """The whole file."""
        try:
            return self._files.read(self._path(path))
        except HdfsError as error:
            self._raise("read", path, error)

    def read_range(self, path: str, offset: int, *, length: int) -> bytes:
        """A part of the file."""
        try:
            # a DataNode refuses an offset past the end
            length = min(length, self._files.status(self._path(path)).bytes - offset)
            return self._files.read(self._path(path), offset=offset, length=length) if length > 0 else b""
        except HdfsError as error:
            self._raise("read", path, error)

    def list(self, prefix: str) -> list[str]:
        """Files below the folder, without temporary ones."""
        return sorted(each.path for each in self._walk(prefix) if not _is_temporary(each.path))

    def objects(self, prefix: str) -> Iterable[StoredObject]:
        """Files with size and time."""
        found = (each for each in self._walk(prefix) if not _is_temporary(each.path))
        return sorted(found, key=lambda each: each.path)

    def leftovers(self) -> Iterable[StoredObject]:
        """Temporary files of writes in progress or interrupted."""
        found = (each for each in self._walk("") if _is_temporary(each.path))
        return sorted(found, key=lambda each: each.path)

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes the files one by one."""
        for path in paths:
            try:
                self._files.delete(self._path(path))
            except HdfsError as error:
                self._raise("delete", path, error)

    def _put(self, path: str, data: Data) -> bool | None:
        """Returns whether this call wrote the object; None: the object exists, and may be this call's."""
        folder, _, _ = self._path(path).rpartition("/")
        temporary = f"{folder}/{_TEMPORARY}{unique_part()}"
        try:
            self._files.create(temporary, memoryview(data).cast("B"))
            done = self._files.rename(temporary, self._path(path))
        except HdfsError as error:
            # without an answer the next request would get none: the file is a leftover
            if error.kind is not None:
                self._discard(temporary)
            self._raise("write", path, error)
        if done is False:
            self._discard(temporary)
        return done

    def _discard(self, temporary: str) -> None:
        # the outcome is decided: a temporary file is not an object, and is deleted later
        with suppress(HdfsError):
            self._files.delete(temporary)

    def _walk(self, prefix: str) -> Iterator[StoredObject]:
        inside = prefix.rpartition("/")[0]
        waiting = [f"{inside}/" if inside else ""]
        while waiting:
            folder = waiting.pop()
            try:
                entries = self._files.entries(self._path(folder.rstrip("/")))
            except HdfsError as error:
                self._raise("list", folder, error)
            for entry in entries:
                path = f"{folder}{entry.name}"
                if entry.is_folder:
                    waiting.append(f"{path}/")
                elif path.startswith(prefix):
                    yield StoredObject(path, entry.bytes, entry.modified_ms)

    def _path(self, path: str) -> str:
        return f"{self._root}/{path}".rstrip("/") or "/"

    def _raise(self, what: str, path: str, error: HdfsError) -> NoReturn:
        place = f"{self._url}/{path}".rstrip("/")
        if error.kind is Kind.MISSING and what == "read":
            raise ObjectNotFoundError(f"{place} is not there") from error
        raise ExternalError(f"cannot {what} {place}: {error.message}", remedy=error.remedy, retry=True) from error


def _is_temporary(path: str) -> bool:
    return path.rpartition("/")[2].startswith(_TEMPORARY)
