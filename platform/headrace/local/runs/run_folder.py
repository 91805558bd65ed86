"""The folder of a run in slot processes, in the system's temporary one; what killed runs left there is removed.

Owns its name and its end. What lies in it is the worker's and the job master's.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.core.errors import ExternalError, UserError
from headrace.worker.host.worker_folder import LOCK, WorkerFolder

_PREFIX = "headrace-run-"
WORKER = "worker"
"""The worker's own folder in it, locked while it runs."""
YOUNG_S = 60.0
"""A folder without a lock that is younger, or with one that nobody has locked yet, may be of a run that comes to it."""


@contextmanager
def run_folder() -> Iterator[Path]:
    """A folder for one run, gone after it; a run that is killed leaves it to the next one."""
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep() -> None:
    """Removes folders of this user's runs that are dead: nobody holds their worker's lock."""
    now_s = time.time()
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, UserError, ExternalError):
            about = folder.stat(follow_symlinks=False)
            if about.st_uid == os.getuid() and not _is_young(folder, about.st_mtime, now_s):
                # with it go the worker's sockets, which lie elsewhere
                WorkerFolder(folder / WORKER).release()
                shutil.rmtree(folder)


def _is_young(folder: Path, made_s: float, now_s: float) -> bool:
    """Whether that its lock is not held may mean that it is not held yet."""
    try:
        lock = (folder / WORKER / LOCK).stat()
    except FileNotFoundError:
        return made_s > now_s - YOUNG_S
    return not lock.st_size and lock.st_mtime > now_s - YOUNG_S
