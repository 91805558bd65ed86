"""The runs of this home that kept their state and may be resumed.

    $HEADRACE_HOME/runs/<pipeline>.json         the newest run of a pipeline, which `--resume` continues
                        <pipeline>.<job>.json   an earlier run that ended with a checkpoint and was not resumed
                        <pipeline>.lock         locked while a run of that name is running

A record is written when a run begins, and deleted when the run has read all of its input. The run's journal decides
what is newest in it.

A run in slot processes has two folders: a working folder in the system's temporary folder, and its logs in
`$HEADRACE_HOME/runs/logs/<job>`. This module names and deletes them; the worker and the job's machine own the content.
Working folders of killed runs are deleted by the next run. Logs of failed runs stay, because error texts name
the files.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.records import CheckpointRecord
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import ExternalError, UserError
from headrace.core.files.home_files import PRIVATE_FILE, make_private_folder, private_opener, replace_file
from headrace.core.settings import Home
from headrace.worker.supervision.worker_folder import LOCK, WorkerFolder


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run. `storage`: URL of its checkpoint folder; `pid`: of the process that runs or ran it; `file`: the absolute
    path of its pipeline, empty if an earlier version wrote the record.
    """

    job: str
    storage: str
    pid: int
    file: str = ""


@dataclass(frozen=True, slots=True)
class KeptRun:
    """A record in this home. `newest`: `--resume` resumes it; `running`: its pipeline runs now."""

    pipeline: str
    run: RecordedRun
    newest: bool
    running: bool


@contextmanager
def run_alone(home: Home, pipeline: str) -> Iterator[None]:
    """Holds the pipeline's lock: no other run of the name begins in this home. Raises UserError if one is running.

    The kernel releases the lock with this process, however it ends.
    """
    path = _lock_path(home, pipeline)
    try:
        make_private_folder(path.parent)
        file = os.fdopen(private_opener(str(path), os.O_WRONLY | os.O_CREAT | os.O_APPEND), "a")
    except OSError as cause:
        raise _unwritable(path, cause) from cause
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as cause:
            raise UserError(
                f"a run of {pipeline} is running in {home.root}{_by_whom(home, pipeline)}",
                remedy="end it first; or use another state for this one: --name NAME, or another HEADRACE_HOME",
            ) from cause
        yield


def record_run(home: Home, pipeline: str, run: RecordedRun) -> None:
    """Records the newest run of a pipeline. An earlier one with a checkpoint is kept under its job's id."""
    path = _path(home, pipeline)
    with suppress(UserError):
        # an unreadable record of an earlier run must not stop this one
        before = recorded_run(home, pipeline)
        if before.job != run.job and has_checkpoint(before):
            _write(_left_path(home, pipeline, before.job), before)
    _write(path, run)


def recorded_run(home: Home, pipeline: str, job: str | None = None) -> RecordedRun:
    """Returns the run of a pipeline to resume: the newest, or the one of that job. Raises UserError."""
    path = _path(home, pipeline) if job is None else _left_path(home, pipeline, job)
    try:
        return _read(path)
    except FileNotFoundError as cause:
        raise UserError(
            f"there is no run of {pipeline} to resume in {home.root}", remedy="leave out --resume to start a new run"
        ) from cause
    except (OSError, ValueError, TypeError) as cause:
        raise UserError(f"{path} cannot be read: {cause}", remedy="leave out --resume to start a new run") from cause


def kept_runs(home: Home) -> tuple[KeptRun, ...]:
    """Returns all records, by pipeline, the newest of each first. Unreadable records are left out."""
    found = []
    for path in (home.root / "runs").glob("*.json"):
        with suppress(OSError, ValueError, TypeError):
            run = _read(path)
            left = path.name.endswith(f".{run.job}.json")
            pipeline = path.name.removesuffix(f".{run.job}.json" if left else ".json")
            running = not left and _is_locked(_lock_path(home, pipeline))
            found.append(KeptRun(pipeline, run, newest=not left, running=running))
    return tuple(sorted(found, key=lambda kept: (kept.pipeline, not kept.newest, kept.run.job)))


def forget_run(home: Home, pipeline: str, run: RecordedRun) -> None:
    """Deletes everything of the run: it has read all of its input, or the user drops its state."""
    store = open_store(run.storage)
    store.delete(store.list(""))
    if "://" not in store.url:
        shutil.rmtree(store.url, ignore_errors=True)
    _left_path(home, pipeline, run.job).unlink(missing_ok=True)
    with suppress(UserError):
        if recorded_run(home, pipeline).job == run.job:
            _path(home, pipeline).unlink(missing_ok=True)


def forget_if_nothing_kept(home: Home, pipeline: str, run: RecordedRun) -> None:
    """After an error: deletes the run unless it has a checkpoint. Decided output of a checkpoint may be visible, or
    about to be, and only its journal knows.
    """
    if not has_checkpoint(run):
        forget_run(home, pipeline, run)


def has_checkpoint(run: RecordedRun) -> bool:
    """Whether there is a checkpoint to resume. Raises ExternalError."""
    return newest_checkpoint(run) is not None


def newest_checkpoint(run: RecordedRun) -> CheckpointRecord | None:
    """Returns the newest complete checkpoint of a run, or None. Raises ExternalError."""
    checkpoints = JournalStore(open_store(run.storage), "", "").load().checkpoints
    return checkpoints[-1] if checkpoints else None


def _path(home: Home, pipeline: str) -> Path:
    return home.root / "runs" / f"{pipeline}.json"


def _left_path(home: Home, pipeline: str, job: str) -> Path:
    return home.root / "runs" / f"{pipeline}.{job}.json"


def _lock_path(home: Home, pipeline: str) -> Path:
    return home.root / "runs" / f"{pipeline}.lock"


def _read(path: Path) -> RecordedRun:
    return RecordedRun(**json.loads(path.read_text()))


def _write(path: Path, run: RecordedRun) -> None:
    try:
        make_private_folder(path.parent)
        replace_file(path, json.dumps(asdict(run)).encode(), mode=PRIVATE_FILE)
    except OSError as cause:
        raise _unwritable(path, cause) from cause


def _unwritable(path: Path, cause: OSError) -> ExternalError:
    return ExternalError(f"{path} cannot be written: {cause.strerror}", remedy="make room, or set HEADRACE_HOME")


def _by_whom(home: Home, pipeline: str) -> str:
    """Names the running process. The record is written a moment after the lock is taken: until then it names the
    previous run.
    """
    try:
        pid = _read(_path(home, pipeline)).pid
        os.kill(pid, 0)
    except (OSError, ValueError, TypeError):
        return ""
    return f", as process {pid}"


def _is_locked(path: Path) -> bool:
    try:
        with open(path, "a", opener=private_opener) as file:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


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
