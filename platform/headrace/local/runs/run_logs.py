"""The logs of a run's processes: `$HEADRACE_HOME/runs/logs/<job>`. Kept for failed runs, because error texts name the
files.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from headrace.core.errors import ExternalError
from headrace.core.files.private_files import make_private_folder
from headrace.core.settings import Home

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
