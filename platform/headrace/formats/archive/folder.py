"""The folder of an archive, local or of any scheme that fsspec supports: listing, opening and writing files.

The only module of the archive that uses fsspec and HDFS. Must not know the content of files, nor select the files to
read.
"""

from __future__ import annotations

import os
import uuid
from pathlib import Path
from typing import Any, NoReturn

import fsspec
import pyarrow as pa

from headrace.core.errors import ExternalError, UserError
from headrace.formats.archive.names import ArchiveFile, file_named, partition_folder, partition_named
from headrace.hdfs.addresses import SCHEMES

_WHOLE_PUTS = frozenset({"s3", "s3a", "gs", "gcs", "abfs", "abfss", "az", "adl", "memory", *SCHEMES})
"""Schemes with atomic puts: an object is either complete or absent."""


class ArchiveNotFoundError(ExternalError):
    """The file does not exist (any more)."""


class ArchiveFolder:
    """An archive by its URL or path. Creates nothing before the first put. Used by one thread."""

    def __init__(self, url: str) -> None:
        self.url = url.rstrip("/") or "/"
        try:
            self._files, root = _opened(self.url)
        except (ImportError, ValueError) as cause:
            raise UserError(
                f"no installed package can read the archive {url}: {cause}",
                remedy="install the fsspec package of that scheme, or keep the archive in a folder",
            ) from cause
        except OSError as cause:
            self._refused("reach", self.url, cause)
        self._root = str(root).rstrip("/")
        protocol = self._files.protocol
        self._protocols = {protocol} if isinstance(protocol, str) else set(protocol)

    @property
    def local(self) -> bool:
        """Whether the archive is a folder of this host."""
        return bool(self._protocols & {"file", "local"})

    def partitions(self, topic: str) -> list[int]:
        """Partitions of a topic that have a folder, in order."""
        found = (partition_named(name) for name in self._names(topic))
        return sorted(partition for partition in found if partition is not None)

    def files(self, topic: str, partition: int) -> list[ArchiveFile]:
        """The files of a partition as listed now, in order; ignores other files."""
        found = (file_named(name) for name in self._names(partition_folder(topic, partition)))
        return sorted(file for file in found if file is not None)

    def place(self, topic: str, partition: int, file: ArchiveFile) -> str:
        """A file's location, for messages."""
        return f"{self.url}/{partition_folder(topic, partition)}/{file.name}"

    def open(self, topic: str, partition: int, file: ArchiveFile) -> Any:
        """Opens a file for pyarrow; the caller closes it. Raises ArchiveNotFoundError."""
        path = f"{self._root}/{partition_folder(topic, partition)}/{file.name}"
        try:
            return pa.OSFile(path) if self.local else self._files.open(path, "rb")
        except FileNotFoundError as cause:
            raise ArchiveNotFoundError(f"{self.place(topic, partition, file)} no longer exists", retry=True) from cause
        except OSError as cause:
            self._refused("read", path, cause)

    def put(self, topic: str, partition: int, file: ArchiveFile, data: pa.Buffer) -> None:
        """Writes a file, whole and durable. It may replace a file with the same name, which has the same content."""
        folder = f"{self._root}/{partition_folder(topic, partition)}"
        try:
            if self.local:
                _put_locally(Path(folder), file.name, data)
                return
            if self._protocols & _WHOLE_PUTS:
                self._files.pipe_file(f"{folder}/{file.name}", data.to_pybytes())
                return
            self._files.makedirs(folder, exist_ok=True)
            temporary = f"{folder}/{_temporary(file.name)}"
            self._files.pipe_file(temporary, data.to_pybytes())
            self._files.mv(temporary, f"{folder}/{file.name}")
        except OSError as cause:
            self._refused("write", f"{folder}/{file.name}", cause)

    def make(self) -> None:
        """Creates the folder if the scheme has folders, so that an unwritable location is detected early."""
        if self._protocols & _WHOLE_PUTS:
            return
        try:
            self._files.makedirs(self._root, exist_ok=True)
        except OSError as cause:
            raise UserError(
                f"{self.url} cannot be a folder: {cause.strerror or cause}", remedy="correct `path:`"
            ) from cause

    def _names(self, folder: str) -> list[str]:
        path = f"{self._root}/{folder}"
        try:
            # other processes write here: fsspec's cached listing is stale
            self._files.invalidate_cache(path)
            return [str(name).rstrip("/").rpartition("/")[2] for name in self._files.ls(path, detail=False)]
        except (FileNotFoundError, NotADirectoryError):
            return []
        except OSError as cause:
            self._refused("list", path, cause)

    def _refused(self, what: str, path: str, cause: OSError) -> NoReturn:
        text = cause.strerror or str(cause).partition("\n")[0]
        raise ExternalError(
            f"cannot {what} {path}: {text}", remedy="check this path and your permissions", retry=True
        ) from cause


def _opened(url: str) -> tuple[Any, str]:
    """A file system, and the folder in it."""
    if url.partition("://")[0] in SCHEMES:
        from headrace.hdfs.file_system import HdfsFileSystem

        # fsspec's own takes a JVM, or has no time limits
        files = HdfsFileSystem(url)
        return files, files.root
    opened: tuple[Any, str] = fsspec.core.url_to_fs(url)
    return opened


def _temporary(name: str) -> str:
    return f".tmp-{uuid.uuid4().hex}-{name}"


def _put_locally(folder: Path, name: str, data: pa.Buffer) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    temporary = folder / _temporary(name)
    try:
        with temporary.open("xb") as out:
            out.write(data)
            out.flush()
            os.fsync(out.fileno())
        temporary.replace(folder / name)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
