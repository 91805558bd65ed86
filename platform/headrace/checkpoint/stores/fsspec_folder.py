"""Folders of any scheme that fsspec supports: for savepoints, which need no conditional put. Wraps fsspec."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from typing import Any

import fsspec

from headrace.checkpoint.stores.store import Data, ObjectNotFoundError, StoredObject
from headrace.core.errors import ExternalError, UserError


class ForeignStore:
    """A folder with read, write, list and delete, but without a conditional put."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._files, self._root = _opened(self._url)

    @property
    def url(self) -> str:
        """The URL it was opened with."""
        return self._url

    def put_if_absent(self, path: str, data: Data) -> bool:
        """Raises UserError: the scheme has no conditional put."""
        raise UserError(
            f"{self._url} cannot hold checkpoints: its scheme has no put-if-absent that is known to hold",
            remedy="use a folder (a path or file://..), s3://bucket/prefix or hdfs://namenode/path for checkpoints",
        )

    def write(self, path: str, data: Data) -> None:
        """Writes the object."""
        target = self._path(path)
        try:
            self._files.makedirs(target.rpartition("/")[0], exist_ok=True)
            self._files.pipe_file(target, bytes(data))
        except OSError as error:
            raise self._refused("write", path, error) from error

    def read(self, path: str) -> bytes:
        """The whole object."""
        return self._read(path, None, None)

    def read_range(self, path: str, offset: int, *, length: int) -> bytes:
        """A part of the object."""
        return self._read(path, offset, offset + length)

    def _read(self, path: str, start: int | None, end: int | None) -> bytes:
        try:
            data: bytes = self._files.cat_file(self._path(path), start=start, end=end)
        except FileNotFoundError as error:
            raise ObjectNotFoundError(f"{self._url}/{path} is not there") from error
        except OSError as error:
            raise self._refused("read", path, error) from error
        return data

    def list(self, prefix: str) -> list[str]:
        """Paths that begin with `prefix`."""
        return [found.path for found in self.objects(prefix)]

    def objects(self, prefix: str) -> Iterable[StoredObject]:
        """Objects with size and time (0 if the scheme reports none)."""
        folder = prefix.rpartition("/")[0]
        try:
            found: dict[str, dict[str, Any]] = self._files.find(self._path(folder), detail=True)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise self._refused("list", prefix, error) from error
        start = len(self._root.rstrip("/")) + 1
        objects = [
            StoredObject(name[start:], int(about.get("size") or 0), _time(about)) for name, about in found.items()
        ]
        return sorted((each for each in objects if each.path.startswith(prefix)), key=lambda each: each.path)

    def leftovers(self) -> Iterable[StoredObject]:
        """Returns none: interrupted writes are not visible here."""
        return ()

    def delete(self, paths: Iterable[str]) -> None:
        """Deletes the objects one by one."""
        for path in paths:
            try:
                self._files.rm_file(self._path(path))
            except FileNotFoundError:
                continue
            except OSError as error:
                raise self._refused("delete", path, error) from error

    def _path(self, path: str) -> str:
        return f"{self._root.rstrip('/')}/{path}".rstrip("/")

    def _refused(self, what: str, path: str, error: OSError) -> ExternalError:
        return ExternalError(
            f"cannot {what} {self._url}/{path}: {error}", remedy="look at that place and your access to it", retry=True
        )


def _opened(url: str) -> tuple[Any, str]:
    try:
        files, root = fsspec.core.url_to_fs(url)
    except (ImportError, ValueError) as error:
        raise UserError(
            f"nothing here can read {url}: {error}",
            remedy="install the fsspec package of that scheme, or copy it to a folder",
        ) from error
    except OSError as error:
        raise ExternalError(f"cannot reach {url}: {str(error).partition(chr(10))[0]}", retry=True) from error
    return files, str(root)


def _time(about: dict[str, Any]) -> int:
    for key in ("mtime", "created", "LastModified", "updated"):
        match about.get(key):
            case datetime() as stamp:
                return int(stamp.timestamp() * 1000)
            case int() | float() as seconds:
                return int(seconds * 1000)
    return 0
