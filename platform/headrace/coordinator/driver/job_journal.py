"""A job's journal as its driver uses it: reads, appends and pruning go through the storage queue and end in events."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import assert_never

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.job_folder.orphans import GRACE_MS, delete_orphans
from headrace.checkpoint.journal.journal import JournalReplaced, PutResult, Settled, Written
from headrace.checkpoint.journal.records import CheckpointRecord, Record
from headrace.checkpoint.savepoints.damaged_epochs import damaged_epochs
from headrace.checkpoint.savepoints.savepoint import checkpoint_url, release_savepoint
from headrace.coordinator.driver.job_setup import JobSetup
from headrace.coordinator.driver.storage_queue import StorageQueue
from headrace.coordinator.job import events as on
from headrace.coordinator.job.journaling import journal_read
from headrace.core.clock import Clock
from headrace.core.errors import Domain, ExternalError
from headrace.rpc.failure import concealed_failure, failure_of
from headrace.rpc.messages import Failure

LOG = logging.getLogger("headrace.coordinator")


@dataclass(frozen=True, slots=True)
class Checkpointed:
    """The newest complete checkpoint, for the job's status."""

    epoch: int
    completed_at_ms: int
    path: str
    bytes: int


@dataclass(frozen=True, slots=True)
class JournalWatch:
    """Callbacks of a job's journal to its driver. Called in the loop.

    post       an event for the machine
    written    a record was appended
    """

    post: Callable[[on.Event], None]
    written: Callable[[Record], None]


class JobJournal:
    """The journal of one job, its newest checkpoint, and the files that belong to neither. To be called in the loop."""

    def __init__(self, setup: JobSetup, queue: StorageQueue, clock: Clock, watch: JournalWatch) -> None:
        self._setup = setup
        self._storage = queue
        self._clock = clock
        self._watch = watch
        self._store = JournalStore(setup.store, "", setup.writer)
        self._collected_at_ms: int | None = None
        self.checkpoint: Checkpointed | None = None

    @property
    def replaced_by(self) -> str | None:
        """The writer that has continued the journal, as far as this one knows; its own name if none has."""
        replaced, records = self._store.replaced, self._store.journal.records
        if replaced is not None:
            return replaced.writer
        return records[-1].writer if records else None

    @property
    def was_read(self) -> bool:
        """Whether the journal was read since this driver began."""
        return bool(self._store.journal.records)

    def read(self, ticket: int, *, had_attempts: bool, suspects_files: bool) -> None:
        """Reads the journal, and checks which of its checkpoints are complete.

        had_attempts     the job has had attempts, so an empty journal is an error
        suspects_files   contents are compared, not only sizes: a restore has failed permanently
        """
        load = partial(self._load, ticket, had_attempts=had_attempts, suspects_files=suspects_files)
        self._storage.put("reading the journal", load, self._on_loaded, self._on_failed)

    def append(self, ticket: int, draft: Record) -> None:
        """Appends a record."""
        what = f"writing record `{draft.kind}`"
        self._storage.put(what, partial(self._store.append, draft), partial(self._on_put, ticket), self._on_failed)

    def prune(self, retained: int) -> None:
        """Deletes checkpoints but the newest `retained`, and orphaned files now and then.

        Best effort: files that could not be deleted are retried after the next checkpoint, so a slow delete never
        delays one.
        """
        self._storage.put("pruning", partial(self._prune, retained), _nothing, self._on_prune_failed, patience_s=0.0)

    # ---- in a storage thread -------------------------------------------------------------------------------------

    def _load(self, ticket: int, *, had_attempts: bool, suspects_files: bool) -> on.JournalRead:
        journal = self._store.load()
        if not journal.records and had_attempts:
            # The job has had attempts, so it had records. Most likely a volume is not mounted. To start from scratch
            # would write all output again.
            raise ExternalError(
                f"the journal of job {self._setup.config.job} is gone: {self._setup.storage} is empty",
                remedy="is that storage mounted? Bring it back, or cancel the job and submit it from a savepoint",
                retry=True,
            )
        damaged = damaged_epochs(self._setup.store, journal, deep=suspects_files)
        return journal_read(ticket, journal, damaged)

    def _prune(self, retained: int) -> None:
        if self._store.prune(retained) is None:
            # its view of the journal is out of date: another coordinator's files would count as orphans
            return
        now_ms = self._clock.now_ms()
        if self._collected_at_ms is None or now_ms - self._collected_at_ms >= GRACE_MS:
            delete_orphans(self._setup.store, self._store.journal, now_ms)
            self._collected_at_ms = now_ms
            if self._setup.claimed is not None and self._store.journal.uncommitted is None:
                # the claimed savepoint is needed until a checkpoint of this job is committed
                release_savepoint(self._setup.claimed, (each.manifest for each in self._store.journal.checkpoints))

    # ---- in the loop ---------------------------------------------------------------------------------------------

    def _on_loaded(self, read: on.JournalRead) -> None:
        if (replaced := self._store.replaced) is not None:
            self._watch.post(on.Replaced(replaced.reason))
            return
        checkpoints = self._store.journal.checkpoints
        if checkpoints:
            self._note(checkpoints[-1])
        if read.passed_over:
            listed = ", ".join(str(epoch) for epoch in read.passed_over)
            LOG.warning("job %s: checkpoint %s is damaged and passed over", self._setup.config.job, listed)
        self._watch.post(read)

    def _on_put(self, ticket: int, result: PutResult) -> None:
        match result:
            case Written(record):
                if isinstance(record, CheckpointRecord):
                    self._note(record)
                self._watch.written(record)
                self._watch.post(on.RecordWritten(ticket))
            case Settled(record):
                # An earlier put, which seemed to fail, had succeeded. The machine acted as if it had failed, so it must
                # read the journal again.
                text = f"record {record.number} of its journal stands though its write seemed to fail"
                self._watch.post(on.JournalFailed(Failure(text, Domain.EXTERNAL.value, retry=True)))
            case JournalReplaced():
                self._watch.post(on.Replaced(result.reason))
            case _:
                assert_never(result)

    def _note(self, record: CheckpointRecord) -> None:
        manifest = record.manifest
        path = checkpoint_url(self._setup.storage, record)
        self.checkpoint = Checkpointed(manifest.epoch, record.at_ms, path, manifest.bytes)

    def _on_failed(self, error: Exception) -> None:
        self._watch.post(on.JournalFailed(concealed_failure(failure_of(error), self._setup.plans.concealment)))

    def _on_prune_failed(self, error: Exception) -> None:
        LOG.warning("job %s: old checkpoints could not be deleted: %s", self._setup.config.job, error)


def _nothing(_: object) -> None:
    """The callback after pruning: does nothing."""
