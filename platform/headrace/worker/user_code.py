"""The user's modules in a slot process: fetched into a folder of the slot, first on the import path.

A slot process runs one attempt of one job, so what it imports is the job's alone.
"""

from __future__ import annotations

import importlib
import io
import sys
import tarfile
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path

from headrace.checkpoint.paths import parted
from headrace.core.errors import UserError

_IMPORTABLE = (".zip", ".whl", ".egg")
_TAR = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")


def fetch_code(urls: Iterable[str], folder: Path, read: Callable[[str], bytes]) -> list[str]:
    """Import path entries for modules (.py) and archives (.zip, .whl, .egg, .tar.*), in the order given.

    Raises UserError for another kind of file, and what `read` raises.
    """
    entries: list[str] = []
    for number, url in enumerate(urls):
        _, name = parted(url)
        own = folder / f"code-{number}"
        own.mkdir(parents=True)
        if name.endswith(_TAR):
            with tarfile.open(fileobj=io.BytesIO(read(url))) as archive:
                archive.extractall(own, filter="data")
            entries.append(str(own))
        elif name.endswith((".py", *_IMPORTABLE)):
            (own / name).write_bytes(read(url))
            entries.append(str(own if name.endswith(".py") else own / name))
        else:
            remedy = f"give modules (.py) or archives ({', '.join((*_IMPORTABLE, *_TAR))})"
            raise UserError(f"{name} is no code that can be imported", remedy=remedy)
    return entries


def put_on_path(entries: Sequence[str]) -> None:
    """Puts these first on the import path, in order; what was there stays behind them."""
    path = [*entries, *(entry for entry in sys.path if entry not in entries)]
    if path == sys.path:
        return  # finders that look again read whole archives
    sys.path[:] = path
    importlib.invalidate_caches()
