"""Objects as files of a folder, local or mounted.

    write: temporary file beside the target ─> fsync ─> link(2) to the target's name ─> fsync of the folder
                                                         └─ the name is taken: another writer was first

link(2) never replaces a file. So exactly one of all writers, in any processes, gets the name, and a name is never
visible before its whole content is on disk. A process that dies in between leaves a temporary file, which is not an
object (`leftovers`).
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import unquote, urlsplit

from headrace.checkpoint.stores.store import Data, ObjectNotFoundError, StoredObject
from headrace.checkpoint.unique_names import unique_part
from headrace.core.errors import ExternalError, InternalError, UserError
from headrace.core.files.home_files import PRIVATE_FILE, PRIVATE_FOLDER, is_private

_TEMPORARY = ".tmp-"

_REMEDIES = {
    errno.ENOSPC: "free space on that file system, or keep checkpoints elsewhere (checkpoint.storage)",
    errno.EDQUOT: "the quota there is used up: free space, or keep checkpoints elsewhere (checkpoint.storage)",
    errno.EFBIG: "files there may not grow so large (ulimit -f, or the file system): raise that limit",
    errno.EROFS: "the file system is read-only: mount it writable, or keep checkpoints elsewhere (checkpoint.storage)",
    errno.EACCES: "give this user write access to that folder, or keep checkpoints elsewhere (checkpoint.storage)",
    errno.EPERM: "the folder must be writable and its file system must know hard links (link(2)); "
    "or keep checkpoints elsewhere (checkpoint.storage)",
    errno.EOPNOTSUPP: "its file system knows no hard links (link(2)): keep checkpoints elsewhere (checkpoint.storage)",
    errno.ENOTDIR: "something on the way there is a file: remove it, or name another folder",
    errno.EIO: "the disk or the mount fails: look at the kernel's log",
}


class FileStore:
    """A folder of this host, created with the first object. Below a `HEADRACE_HOME` only its owner can access the
    files."""

    def __init__(self, url: str) -> None:
        self._root = _folder(url)
        self._url = url.rstrip("/") or "/"
        private = is_private(self._root)
        self._file_mode, self._folder_mode = (PRIVATE_FILE, PRIVATE_FOLDER) if private else (0o644, 0o777)

    @property
    def url(self) -> str:
        """The URL or path it was opened with."""
        return self._url

    def put_if_absent(self, path: str, data: Data) -> bool:
        """Writes the file unless the name is taken."""
        target = self._root / path
        try:
            self._make_folder(target.parent)
            return _link_new(target, data, self._file_mode)
        except OSError as error:
            raise _refused("write", target, error) from error

    def write(self, path: str, data: Data) -> None:
        """Writes a file under a new name."""
        if not self.put_if_absent(path, data):
            raise InternalError(f"{self._root / path} was to be written once, and is there already")

    def read(self, path: str) -> bytes:
        """The whole file."""
        return _read(self._root / path, 0, None)

    def read_range(self, path: str, offset: int, *, length: int) -> bytes:
        """A part of the file."""
        return _read(self._root / path, offset, length)

    def list(self, prefix: str) -> list[str]:
        """Files below the folder, without temporary ones."""
        return sorted(path for path in self._walk(prefix) if not _is_temporary(path))

    def objects(self, prefix: str) -> Iterable[StoredObject]:
        """Files with size and time; files deleted meanwhile are omitted."""
        for path in self.list(prefix):
            yield from self._described(path)

    def leftovers(self) -> Iterable[StoredObject]:
        """Temporary files of writes in progress or interrupted."""
        for path in sorted(filter(_is_temporary, self._walk(""))):
            yield from self._described(path)

    def delete(self, paths: Iterable[str]) -> None:
        """Unlinks the files one by one."""
        for path in paths:
            target = self._root / path
            try:
                with suppress(FileNotFoundError, NotADirectoryError):
                    target.unlink()
            except OSError as error:
                raise _refused("delete", target, error) from error

    def _described(self, path: str) -> Iterator[StoredObject]:
        with suppress(FileNotFoundError):
            status = (self._root / path).stat()
            yield StoredObject(path, status.st_size, status.st_mtime_ns // 1_000_000)

    def _walk(self, prefix: str) -> Iterator[str]:
        inside = prefix.rpartition("/")[0]
        waiting = [f"{inside}/" if inside else ""]
        while waiting:
            folder = waiting.pop()
            try:
                with os.scandir(self._root / folder) as entries:
                    for entry in entries:
                        path = f"{folder}{entry.name}"
                        if entry.is_dir(follow_symlinks=False):
                            waiting.append(f"{path}/")
                        elif path.startswith(prefix):
                            yield path
            except (FileNotFoundError, NotADirectoryError):
                continue
            except OSError as error:
                raise _refused("list", self._root / folder, error) from error

    def _make_folder(self, folder: Path) -> None:
        """Creates the folder and its missing parents, each durable in its parent."""
        if folder.is_dir():
            return
        missing = [folder, *(parent for parent in folder.parents if not parent.exists())]
        for each in reversed(missing):
            each.mkdir(self._folder_mode, exist_ok=True)
            _sync_folder(each.parent)


def _folder(url: str) -> Path:
    if not url.startswith("file://"):
        return Path(url)
    parts = urlsplit(url)
    if parts.netloc not in {"", "localhost"}:
        raise UserError(
            f"{url} names a host, {parts.netloc!r}: only files of this host can be reached",
            remedy=f"write file:///{parts.netloc}{parts.path} (three slashes) if the folder is on this host",
        )
    if parts.query or parts.fragment:
        raise UserError(
            f"{url} has a ? or a #, which end the path of a URL",
            remedy="write %3F and %23, or the path without file://",
        )
    return Path(unquote(parts.path) or "/")


def _is_temporary(path: str) -> bool:
    return path.rpartition("/")[2].startswith(_TEMPORARY)


def _read(target: Path, offset: int, length: int | None) -> bytes:
    try:
        with target.open("rb") as file:
            file.seek(offset)
            return file.read(length)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
        raise ObjectNotFoundError(f"{target} is not there") from error
    except OSError as error:
        raise _refused("read", target, error) from error


def _link_new(target: Path, data: Data, mode: int) -> bool:
    temporary = target.parent / f"{_TEMPORARY}{unique_part()}"
    try:
        _write_durably(temporary, data, mode)
        try:
            os.link(temporary, target)
        except FileExistsError:
            # NFS sends a request again whose answer was lost, and the second one finds the name of the first. Only
            # this call links its temporary file: a second name of that is the target.
            if temporary.stat().st_nlink == 1:
                return False
        # without this a power loss could remove the name after this function has returned True
        _sync_folder(target.parent)
        return True
    finally:
        with suppress(OSError):  # the outcome is decided: a temporary file is not an object, and is deleted later
            temporary.unlink()


def _write_durably(path: Path, data: Data, mode: int) -> None:
    handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)
    try:
        left = memoryview(data).cast("B")
        while left:
            left = left[os.write(handle, left) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _refused(what: str, path: Path, error: OSError) -> ExternalError:
    reason = os.strerror(error.errno) if error.errno else str(error)
    remedy = _REMEDIES.get(error.errno or 0, "look at that folder: it must be readable and writable by this user")
    return ExternalError(f"cannot {what} {path}: {reason}", remedy=remedy, retry=True)
