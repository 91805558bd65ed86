"""The coordinator's jobs, in the cluster's ledger (`coordinator.ledger`).

    $HEADRACE_HOME/cluster/ledger/    every change, as a numbered record; submissions in it are encrypted
                   cluster/key        the key, mode 0600
                   jobs/<job>/        files of a job that no other coordinator needs: its log

Coordinators that share a ledger have it, and its key, elsewhere (`SharedLedger`).

A change is durable when its method returns, and its coordinator was still the one that leads then. The store never
decides which epoch or attempt is the newest: the journal does.
"""

from __future__ import annotations

import asyncio
import logging
import re
import secrets
import shutil
import threading
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from pydantic import ValidationError

from headrace.checkpoint.manifest import Document
from headrace.checkpoint.stores.file import FileStore
from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.stores.store import ObjectStore
from headrace.coordinator.job.history import JobHistory
from headrace.coordinator.ledger import records
from headrace.coordinator.ledger.ledger import Ledger
from headrace.coordinator.store.ledger_store import LedgerReplacedError, LedgerStore
from headrace.coordinator.store.sealing import Sealer
from headrace.coordinator.store.shared_ledger import SharedLedger
from headrace.coordinator.store.submission import JobSubmission
from headrace.core.clock import Clock, SystemClock
from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.files.home_files import make_private_folder, remove_file
from headrace.core.settings import Home
from headrace.leadership.candidacy.candidacy import Replaced, StorageLost, TermOver

WATCH_S = 5.0
"""Interval at which an idle coordinator checks whether another one has taken its jobs over."""
STORAGE_LOST_S = 60.0
"""After this time without its ledger a coordinator that has standbys gives up: another host may reach the storage. A
shorter outage, which all hosts have at the same time, stops no job."""
T = TypeVar("T")


class Blocking(Protocol):
    """Runs a function in a thread."""

    def __call__(self, work: Callable[[], T]) -> Coroutine[Any, Any, T]:
        """Returns what `work` returns."""
        ...


class WatchedStore:
    """One coordinator's job store, as the event loop uses it: calls run in threads.

    on_over   called when another coordinator has taken the jobs over, or the ledger was unreachable for
              `STORAGE_LOST_S`

    A coordinator detects that it has lost the ledger by its next write, or by a check every `WATCH_S`.
    """

    def __init__(self, store: JobStore, blocking: Blocking, on_over: Callable[[TermOver], None]) -> None:
        self._store = store
        self._blocking = blocking
        self._on_over = on_over
        self._closing = asyncio.Event()
        self._reached_s = 0.0
        """Start of the last check that storage answered, by the loop's clock."""
        self._trouble = "storage does not answer"

    async def call(self, work: Callable[[], T]) -> T:
        """Runs a call of the job store in a thread."""
        try:
            return await self._blocking(work)
        except LedgerReplacedError as error:
            self._on_over(Replaced(error.message))
            raise

    async def watch(self) -> None:
        """Checks every `WATCH_S` whether this coordinator still has the ledger, until `close`."""
        loop = asyncio.get_running_loop()
        self._reached_s = loop.time()
        closing, looking = asyncio.create_task(self._closing.wait()), asyncio.create_task(self._watch())
        try:
            while not (closing.done() or looking.done()):
                await asyncio.wait({closing, looking}, timeout=WATCH_S, return_when=asyncio.FIRST_COMPLETED)
                # A look that hangs counts as one that failed: a client of storage that is cut off may try for minutes.
                if not closing.done() and loop.time() - self._reached_s >= STORAGE_LOST_S:
                    self._on_over(StorageLost(f"its ledger has been out of reach for long: {self._trouble}"))
                    # it goes on if there is no standby
                    self._reached_s = loop.time()
            if looking.done():
                looking.result()
        finally:
            closing.cancel()
            looking.cancel()

    async def _watch(self) -> None:
        """Returns when another coordinator has the ledger."""
        while True:
            await asyncio.sleep(WATCH_S)
            asked_s = asyncio.get_running_loop().time()
            try:
                await self.call(self._store.require_own)
                self._reached_s = asked_s
            except LedgerReplacedError:
                return
            except ExternalError as error:
                self._trouble = error.message
                LOG.warning("whether another coordinator leads is unknown: %s", error.message)

    def close(self) -> None:
        """Ends the watch."""
        self._closing.set()


_JOB_ID = re.compile(r"[0-9a-f]{12}\Z")
_FILES = ("job.json", "result.json", "history.json")
_Earlier = records.Submitted | records.HistoryKept | records.Ended


def earlier_jobs(root: Path, sealer: Sealer) -> tuple[list[_Earlier], list[Path]]:
    """Returns the changes that add the jobs below `root` to a ledger, and their folders. A job that cannot be read is
    logged, and its files are not changed.

    Until version 0.1 a home had no ledger, and each job had files in `$HEADRACE_HOME/jobs/<job id>/`:

        job.json      the submission, with secrets: mode 0600
        result.json   the end of the job
        history.json  failures, attempts, rescales
    """
    changes: list[_Earlier] = []
    folders = []
    for folder in _folders(root):
        try:
            changes += _changes(folder, sealer)
        except (OSError, ValidationError) as error:
            LOG.warning("job %s cannot be read and is left alone: %s", folder.name, error)
        else:
            folders.append(folder)
    return changes, folders


def remove_earlier_files(folders: Iterable[Path]) -> None:
    """Deletes the files of jobs that are in the ledger now: they contain secrets. Called once the record is durable."""
    for folder in folders:
        for name in _FILES:
            remove_file(folder / name)


def _folders(root: Path) -> list[Path]:
    # a folder without job.json is a submission that a crash interrupted before it was accepted
    if not root.is_dir():
        return []
    return sorted(each for each in root.iterdir() if _JOB_ID.match(each.name) and (each / "job.json").is_file())


def _changes(folder: Path, sealer: Sealer) -> list[_Earlier]:
    submission = JobSubmission.model_validate_json((folder / "job.json").read_bytes())
    changes: list[_Earlier] = [
        records.Submitted(job=folder.name, sealed=sealer.seal(submission.model_dump_json().encode()))
    ]
    history, result = folder / "history.json", folder / "result.json"
    if history.is_file():
        kept = JobHistory.model_validate_json(history.read_bytes())
        changes.append(records.HistoryKept(job=folder.name, history=kept))
    if result.is_file():
        changes.append(
            records.Ended(job=folder.name, result=records.JobResult.model_validate_json(result.read_bytes()))
        )
    return changes


LOG = logging.getLogger("headrace.coordinator")
ENDED_MAX = 50
"""Most ended jobs that are kept. Jobs that have not ended are always kept."""


@dataclass(frozen=True, slots=True)
class StoredJob:
    """A job as read from the ledger. `result` None: the job has not ended."""

    submission: JobSubmission
    result: records.JobResult | None
    history: JobHistory


@dataclass(slots=True, eq=False)
class _Waiting:
    """Changes of one caller until a record has them."""

    changes: Sequence[records.Change]
    is_written: bool = False


@dataclass(slots=True)
class _Queue:
    """Changes for the next record. Its lock is held for moments, the store's while a record is written."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    waiting: list[_Waiting] = field(default_factory=list)


class ClusterTokens(Document):
    """The tokens of a cluster, as a shared ledger has them, encrypted."""

    full: str
    metrics: str


@dataclass(frozen=True, slots=True)
class StoredIdentity:
    """cluster: its id; tokens: None if the ledger has none."""

    cluster: str
    tokens: ClusterTokens | None


def open_job_store(home: Home, clock: Clock | None = None, *, shared: SharedLedger | None = None) -> JobStore:
    """The job store of a home, in a folder that only its owner can enter, or of a shared ledger. Raises UserError,
    ExternalError."""
    folder = home.root / "cluster"
    _private_folder(folder)
    store: ObjectStore = FileStore(str(folder)) if shared is None else open_store(shared.url)
    key_file = folder / "key" if shared is None else shared.key_file
    ledger = LedgerStore(store, secrets.token_hex(8), clock or SystemClock())
    return JobStore(home.jobs, ledger, Sealer(key_file))


class JobStore:
    """The jobs of a cluster. Blocking; thread-safe. folders: where the jobs' own files are (`Home.jobs`)."""

    def __init__(self, folders: Path, ledger: LedgerStore, sealer: Sealer) -> None:
        self._folders = folders
        self._store = ledger
        self._sealer = sealer
        self._writing = threading.Lock()
        self._queue = _Queue()
        self._term = 0

    def folder(self, job: str) -> Path:
        """The folder of a job's files on this host."""
        return self._folders / job

    @property
    def term(self) -> int:
        """The number of the record with which this coordinator took the ledger over; 0 before that. Each later
        coordinator has a higher one."""
        return self._term

    def take_over(self, is_elected: Callable[[], bool] = lambda: True) -> StoredIdentity | None:
        """Takes the ledger over, once: every other coordinator has been replaced then. Returns the cluster's identity;
        None if it has none yet. is_elected: as `LedgerStore.take_over` has it. Raises ExternalError."""
        with self._writing:
            return self._identity_in(self._opened(is_elected))

    def read_identity(self) -> StoredIdentity | None:
        """The cluster's identity in the ledger, which keeps its owner. Raises ExternalError."""
        with self._writing:
            return self._identity_in(self._store.ledger if self._term else self._store.load())

    def save_identity(self, cluster: str, tokens: ClusterTokens | None) -> None:
        """Replaces the cluster's identity."""
        sealed = None if tokens is None else self._sealer.seal(tokens.model_dump_json().encode())
        self._write(records.Identified(cluster=cluster, tokens=sealed))

    @property
    def application_exit_code(self) -> int | None:
        """The exit code of the cluster's application, as of the last read or write; None: it has not ended."""
        return self._store.ledger.application_exit_code

    def end_application(self, exit_code: int) -> None:
        """Records that the cluster's application has ended; one that has ended keeps its exit code."""
        self._write(records.ApplicationEnded(exit_code=exit_code))

    @property
    def triggers(self) -> tuple[records.TriggerKept, ...]:
        """The operations that users requested, as of the last read or write, oldest first."""
        return tuple(self._store.ledger.triggers.values())

    def keep_trigger(self, trigger: records.TriggerKept) -> None:
        """Records an operation as it stands: the next coordinator knows it. Threads may call this in any order."""
        self._write(trigger)

    def add(self, submission: JobSubmission) -> None:
        """Adds a new job. The job is durable when this returns."""
        _private_folder(self.folder(submission.job))
        sealed = self._sealer.seal(submission.model_dump_json().encode())
        self._write(records.Submitted(job=submission.job, sealed=sealed))

    def discard(self, job: str) -> None:
        """Withdraws a submission whose `add` failed: it may be in the ledger. Raises ExternalError."""
        self._write(records.Discarded(job=job))
        shutil.rmtree(self.folder(job), ignore_errors=True)

    def save_history(self, job: str, history: JobHistory) -> None:
        """Replaces a job's history, but never a newer one: threads may call this in any order."""
        self._write(records.HistoryKept(job=job, history=history))

    def end(self, job: str, result: records.JobResult) -> tuple[str, ...]:
        """Records a job's end, and forgets the oldest ended jobs beyond `ENDED_MAX`. Returns their ids."""
        ledger = self._write(records.Ended(job=job, result=result))
        forgotten = _beyond(ledger, ENDED_MAX)
        if forgotten:
            self._write(*(records.Forgotten(job=each) for each in forgotten))
            for each in forgotten:
                shutil.rmtree(self.folder(each), ignore_errors=True)
        return forgotten

    def withdraw_end(self, job: str) -> None:
        """Withdraws an end whose `end` failed: it may be in the ledger. Raises ExternalError."""
        self._write(records.EndWithdrawn(job=job))

    def load_all(self) -> tuple[list[StoredJob], Mapping[str, str]]:
        """Takes the ledger over, and returns all jobs by time of submission, and job id -> reason for those that cannot
        be read. Raises ExternalError."""
        with self._writing:
            ledger = self._opened()
        jobs: list[StoredJob] = []
        unreadable: dict[str, str] = {}
        for each in ledger.jobs.values():
            try:
                jobs.append(self._unsealed(each))
            except (HeadraceError, ValidationError) as error:
                unreadable[each.job] = _reason(error)
            if each.result is None:
                # another host may have run it until now
                _private_folder(self.folder(each.job))
        return sorted(jobs, key=lambda each: (each.submission.submitted_at_ms, each.submission.job)), unreadable

    def require_own(self) -> None:
        """Raises LedgerReplacedError if another coordinator has taken the ledger over."""
        with self._writing:
            if self._term:
                self._store.require_own()

    def _identity_in(self, ledger: Ledger) -> StoredIdentity | None:
        identity = ledger.identity
        if identity is None:
            return None
        sealed = identity.tokens
        tokens = None if sealed is None else ClusterTokens.model_validate_json(self._sealer.unseal(sealed))
        return StoredIdentity(identity.cluster, tokens)

    def _unsealed(self, job: records.LedgerJob) -> StoredJob:
        submission = JobSubmission.model_validate_json(self._sealer.unseal(job.sealed))
        return StoredJob(submission, job.result, job.history)

    # ---- records -----------------------------------------------------------------------------------------------------

    def _write(self, *changes: records.Change) -> Ledger:
        """Writes the changes, with those that other threads have queued meanwhile, in one record."""
        own = _Waiting(changes)
        with self._queue.lock:
            self._queue.waiting.append(own)
        with self._writing:
            try:
                if not own.is_written:
                    self._write_queued()
            finally:
                # after an error each caller decides itself whether to repeat its changes
                with self._queue.lock:
                    self._queue.waiting = [each for each in self._queue.waiting if each is not own]
            return self._store.ledger

    def _write_queued(self) -> None:
        self._opened()
        with self._queue.lock:
            taken = list(self._queue.waiting)
        self._store.append([change for each in taken for change in each.changes])
        for each in taken:
            each.is_written = True
        with self._queue.lock:
            self._queue.waiting = [each for each in self._queue.waiting if not each.is_written]
        try:
            self._store.compact()
        except LedgerReplacedError:
            raise
        except ExternalError as error:
            # the changes are written: their callers must not receive an error
            LOG.warning("the ledger is not compacted: %s", error)

    def _opened(self, is_elected: Callable[[], bool] = lambda: True) -> Ledger:
        """Takes the ledger over with the first use, and adds the jobs of a home that had none."""
        if not self._term:
            ledger = self._store.take_over(is_elected)
            term = ledger.head
            earlier, found = earlier_jobs(self._folders, self._sealer)
            fresh = [change for change in earlier if change.job not in ledger.jobs]
            if fresh:
                self._store.append(fresh)
            remove_earlier_files(found)
            self._term = term
        return self._store.ledger


def _beyond(ledger: Ledger, ended_max: int) -> tuple[str, ...]:
    """The oldest ended jobs beyond the newest `ended_max`."""
    ended = sorted((each.result.ended_at_ms, each.job) for each in ledger.jobs.values() if each.result is not None)
    return tuple(job for _, job in ended[:-ended_max])


def _reason(error: HeadraceError | ValidationError) -> str:
    if isinstance(error, HeadraceError):
        return error.message
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{first['msg']} at {'.'.join(str(part) for part in first['loc']) or 'its beginning'}"


def _private_folder(folder: Path) -> None:
    try:
        make_private_folder(folder)
    except OSError as cause:
        raise ExternalError(
            f"{folder} cannot be made: {cause.strerror or cause}", remedy="set HEADRACE_HOME to a folder of yours"
        ) from cause
