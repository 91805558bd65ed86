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
from headrace.worker.worker_folder import WorkerFolder

_PREFIX = "headrace-run-"
WORKER = "worker"
"""The worker's own folder in it, locked while it runs."""
YOUNG_S = 60.0
"""A folder that is younger may be of a run that has not locked it yet."""


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
    young_s = time.time() - YOUNG_S
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with suppress(OSError, UserError, ExternalError):
            about = folder.stat(follow_symlinks=False)
            if about.st_uid == os.getuid() and about.st_mtime < young_s:
                # with it go the worker's sockets, which lie elsewhere
                WorkerFolder(folder / WORKER).release()
                shutil.rmtree(folder)
