"""The folders of a run in slot processes: its working folder in the system's temporary folder, and its logs in
`$HEADRACE_HOME/runs/logs/<job>`.

This module names and deletes the folders; the worker and the job's machine own the content. Working folders of killed
runs are deleted by the next run. Logs of failed runs stay, because error texts name the files.
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
from headrace.core.files.private_files import make_private_folder
from headrace.core.settings import Home
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


FAILED_MAX = 10
"""Greatest number of failed runs whose logs are kept; the oldest are deleted."""


class RunLogs:
    """The folder of one run's logs. `failed`: it is kept."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.failed = False


@contextmanager
def run_logs(home: Home, job: str) -> Iterator[RunLogs]:
    """The folder of a run's logs, deleted at the end unless the run failed or an exception leaves the context."""
    logs = RunLogs(_folder(home, job))
    _prune(logs.folder.parent)
    try:
        make_private_folder(logs.folder)
    except OSError as cause:
        raise ExternalError(f"{logs.folder} cannot be made: {cause.strerror}", remedy="set HEADRACE_HOME") from cause
    yield logs
    if not logs.failed:
        forget_logs(home, job)


def forget_logs(home: Home, job: str) -> None:
    """Deletes the logs, if there are any."""
    shutil.rmtree(_folder(home, job), ignore_errors=True)


def _folder(home: Home, job: str) -> Path:
    return home.root / "runs" / "logs" / job


def _prune(folder: Path) -> None:
    """Makes room for one more. A concurrent run that is about to fail is safe: its folder is among the newest."""
    with suppress(OSError):
        oldest_first = sorted(folder.iterdir(), key=lambda path: path.stat().st_mtime)
        for path in oldest_first[: max(0, len(oldest_first) - FAILED_MAX + 1)]:
            shutil.rmtree(path, ignore_errors=True)
