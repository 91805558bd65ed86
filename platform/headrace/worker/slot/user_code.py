"""The user's modules in a slot process: fetched into a folder of the slot, first on the import path.

A slot process runs one attempt of one job, so modules of two jobs never meet in a process.
"""

from __future__ import annotations

import importlib
import io
import os
import sys
import tarfile
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from headrace.checkpoint.paths import parted
from headrace.core.errors import UserError
from headrace.core.files.home_files import OTHERS, make_private_folder, private_opener

_IMPORTABLE = (".zip", ".whl", ".egg")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


def fetch_code(urls: Iterable[str], folder: Path, read: Callable[[str], bytes]) -> list[str]:
    """Writes modules (.py) and archives (.zip, .whl, .egg, .tar.*) to `folder`; returns their import path entries in
    the order of `urls`.

    Raises UserError for another kind of file, and the errors of `read`.
    """
    entries: list[str] = []
    for number, url in enumerate(urls):
        _, name = parted(url)
        own = folder / f"code-{number}"
        make_private_folder(own)
        if name.endswith(_TAR):
            with tarfile.open(fileobj=io.BytesIO(read(url))) as archive:
                _unpack(archive, own)
            _keep_private(own)
            entries.append(str(own))
        elif name.endswith((".py", *_IMPORTABLE)):
            with open(own / name, "wb", opener=private_opener) as file:
                file.write(read(url))
            entries.append(str(own if name.endswith(".py") else own / name))
        else:
            remedy = f"give modules (.py) or archives ({', '.join((*_IMPORTABLE, *_TAR))})"
            raise UserError(f"{name} is no code that can be imported", remedy=remedy)
    return entries


def _unpack(archive: tarfile.TarFile, folder: Path) -> None:
    """Unpacks an archive as files of this process's user."""
    if hasattr(tarfile, "data_filter"):
        archive.extractall(folder, filter="data")
        return
    # Python before 3.11.4, such as Debian 12's, has no filters. What a path or a link of the archive could do, its code
    # could do as well, for this process runs it. But root would give the files to the users that the archive names.
    for member in archive:
        member.uid, member.gid, member.uname, member.gname = os.getuid(), os.getgid(), "", ""
    archive.extractall(folder)


def _keep_private(folder: Path) -> None:
    """Removes the permissions of group and others from everything that was unpacked below a private folder.

    Creates the folders for bytecode with private permissions, because the import system would apply the umask. Python
    gives files of bytecode the mode of their source.
    """
    for path in [*folder.rglob("*")]:
        path.chmod(path.stat().st_mode & ~OTHERS)
        if path.suffix == ".py":
            make_private_folder(path.parent / "__pycache__")


_PATH = threading.Lock()
"""Held while the import path changes: two threads that invalidate finders at once remove the same entry twice."""


def put_on_path(entries: Sequence[str]) -> None:
    """Puts these entries first on the import path, in order, before the ones that are there."""
    with _PATH:
        path = [*entries, *(entry for entry in sys.path if entry not in entries)]
        if path == sys.path:
            return  # nothing has changed, and invalidated finders would read whole archives again
        sys.path[:] = path
        importlib.invalidate_caches()
