"""The coordinator's jobs on disk: `$HEADRACE_HOME/jobs/<job id>/`.

    job.json      the submission, with secrets: mode 0600     written once; deleted if the write failed
    result.json   the end of the job                          written at the end; deleted if the write failed
    history.json  failures, attempts, rescales                replaced with each change

Files are always replaced as a whole. The store never decides which epoch or attempt is the newest: the journal does.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple

from pydantic import ConfigDict, Field, ValidationError

from headrace.checkpoint.manifest import Document
from headrace.coordinator.job.history import JobHistory
from headrace.core.config import FileForm
from headrace.core.errors import ExternalError
from headrace.core.files.private_files import PRIVATE_FILE, make_private_folder
from headrace.core.files.replaced_file import remove_file, replace_file
from headrace.rpc.messages import Failure

ENDED_MAX = 50
"""Most ended jobs that are kept. Jobs that have not ended are always kept."""
_JOB_ID = re.compile(r"[0-9a-f]{12}\Z")


class StoredFloor(NamedTuple):
    """An `AppliedFloor` (the watermark assigned to an idle partition) as job.json has it: five values in this order."""

    source: str
    topic: str
    partition: int
    position: int
    floor: int


class SubmissionOptions(Document):
    """The options of a submission.

    parallelism      of nodes that set none themselves
    from_savepoint   URL of the savepoint or checkpoint that the job starts from; claim: the job deletes it once it is
                     not needed
    renames          node of the savepoint -> node of this pipeline
    code             URLs of the user's archives, beside the job's checkpoints
    python_path      import path entries for the user's functions
    floors           floors of an earlier run
    """

    # a home may contain jobs of another version of headrace, which had other options
    model_config = ConfigDict(extra="ignore")

    parallelism: int
    from_savepoint: str | None = None
    claim: bool = False
    renames: dict[str, str] = Field(default_factory=dict)
    code: tuple[str, ...] = ()
    python_path: tuple[str, ...] = ()
    floors: tuple[StoredFloor, ...] = ()


class JobSubmission(Document):
    """A submitted job.

    pipeline   the file form, with secrets
    storage    URL of the job's checkpoint folder
    """

    job: str
    name: str
    pipeline: FileForm
    options: SubmissionOptions
    submitted_at_ms: int
    storage: str


class JobResult(Document):
    """The end of a job. `savepoint`: URL of the savepoint that a stop returned."""

    state: Literal["FINISHED", "CANCELED", "FAILED"]
    ended_at_ms: int
    savepoint: str | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as read from disk. `result` None: the job has not ended."""

    submission: JobSubmission
    result: JobResult | None
    history: JobHistory


class JobStore:
    """Reads and writes `root` (`Home.jobs`). Blocking. One coordinator uses it at a time; its threads may share it."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._changes: dict[str, int] = {}

    def folder(self, job: str) -> Path:
        """The folder of a job's files."""
        return self._root / job

    def add(self, submission: JobSubmission) -> None:
        """Writes a new job. The job is durable when this returns."""
        with self._lock:
            _private_folder(self.folder(submission.job))
            self._write(submission.job, "job.json", submission)

    def discard(self, job: str) -> None:
        """Deletes a submission whose `add` failed, durably: part of it may be on disk. Raises ExternalError."""
        with self._lock:
            if self.folder(job).is_dir():
                # job.json is deleted first, durably: after a crash a folder without it is not a job
                self._remove(job, "job.json")
                shutil.rmtree(self.folder(job), ignore_errors=True)

    def save_history(self, job: str, history: JobHistory) -> None:
        """Replaces a job's history, but never a newer one: threads may call this in any order."""
        with self._lock:
            if history.changes >= self._changes.get(job, 0):
                self._write(job, "history.json", history)
                self._changes[job] = history.changes

    def end(self, job: str, result: JobResult) -> tuple[str, ...]:
        """Writes a job's result and deletes the oldest ended jobs beyond `ENDED_MAX`. Returns their ids."""
        with self._lock:
            self._write(job, "result.json", result)
            return self._prune()

    def withdraw_end(self, job: str) -> None:
        """Deletes a result whose `end` failed, durably: it may be on disk. Raises ExternalError."""
        with self._lock:
            self._remove(job, "result.json")

    def load_all(self) -> tuple[list[StoredJob], Mapping[str, str]]:
        """Returns all jobs by time of submission, and job id -> reason for those that cannot be read."""
        jobs: list[StoredJob] = []
        unreadable: dict[str, str] = {}
        for folder in sorted(self._folders()):
            try:
                jobs.append(_load(folder))
            except (OSError, ValidationError) as error:
                unreadable[folder.name] = _reason(error)
        return sorted(jobs, key=lambda each: (each.submission.submitted_at_ms, each.submission.job)), unreadable

    def _folders(self) -> list[Path]:
        # a folder without job.json is a submission that a crash interrupted before it was accepted
        if not self._root.is_dir():
            return []
        return [each for each in self._root.iterdir() if _JOB_ID.match(each.name) and (each / "job.json").is_file()]

    def _prune(self) -> tuple[str, ...]:
        ended = sorted(
            (result.stat().st_mtime_ns, folder)
            for folder in self._folders()
            if (result := folder / "result.json").is_file()
        )
        forgotten = [folder for _, folder in ended[:-ENDED_MAX]]
        for folder in forgotten:
            self._changes.pop(folder.name, None)
            shutil.rmtree(folder, ignore_errors=True)
        return tuple(folder.name for folder in forgotten)

    def _write(self, job: str, name: str, document: Document) -> None:
        path = self.folder(job) / name
        try:
            replace_file(path, document.model_dump_json(indent=1).encode(), mode=PRIVATE_FILE, durable=True)
        except OSError as cause:
            raise ExternalError(
                f"{path} cannot be written: {cause.strerror or cause}",
                remedy="make room or set HEADRACE_HOME",
                retry=True,
            ) from cause

    def _remove(self, job: str, name: str) -> None:
        path = self.folder(job) / name
        try:
            remove_file(path)
        except OSError as cause:
            raise ExternalError(
                f"{path} cannot be deleted: {cause.strerror or cause}", remedy="is its disk writable?", retry=True
            ) from cause


def _load(folder: Path) -> StoredJob:
    submission = JobSubmission.model_validate_json((folder / "job.json").read_bytes())
    result, history = folder / "result.json", folder / "history.json"
    return StoredJob(
        submission,
        JobResult.model_validate_json(result.read_bytes()) if result.is_file() else None,
        JobHistory.model_validate_json(history.read_bytes()) if history.is_file() else JobHistory(),
    )


def _reason(error: OSError | ValidationError) -> str:
    if isinstance(error, ValidationError):
        first = error.errors(include_input=False, include_url=False)[0]
        return f"{first['msg']} at {'.'.join(str(part) for part in first['loc']) or 'its beginning'}"
    return error.strerror or str(error)


def _private_folder(folder: Path) -> None:
    try:
        make_private_folder(folder)
    except OSError as cause:
        raise ExternalError(
            f"{folder} cannot be made: {cause.strerror or cause}", remedy="set HEADRACE_HOME to a folder of yours"
        ) from cause
