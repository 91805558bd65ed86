"""The folder of a run in slot processes, in the system's temporary folder. Deletes the folders of killed runs.

This module names and deletes the folder; the worker and the job's machine own its content.
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
from headrace.worker.supervision.worker_folder import LOCK, WorkerFolder

_PREFIX = "headrace-run-"
WORKER = "worker"
"""The worker's own folder in it, locked while the worker runs."""
YOUNG_S = 60.0
"""A younger folder without a lock, or with a lock that was never held, may belong to a run that is just starting."""


@contextmanager
def run_folder() -> Iterator[Path]:
    """A folder for one run, deleted after it. The next run deletes the folder of a killed one."""
    _sweep()
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _sweep() -> None:
    """Deletes the folders of this user's dead runs: their worker's lock is free."""
    now_s = time.time()
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, UserError, ExternalError):
            about = folder.stat(follow_symlinks=False)
            # the temporary folder is shared with other users
            if about.st_uid == os.getuid() and not _is_young(folder, about.st_mtime, now_s):
                # this also deletes the worker's sockets, which lie elsewhere
                WorkerFolder(folder / WORKER).release()
                shutil.rmtree(folder)


def _is_young(folder: Path, made_s: float, now_s: float) -> bool:
    """Whether a free lock may mean that the run has not locked it yet."""
    try:
        lock = (folder / WORKER / LOCK).stat()
    except FileNotFoundError:
        return made_s > now_s - YOUNG_S
    return not lock.st_size and lock.st_mtime > now_s - YOUNG_S
