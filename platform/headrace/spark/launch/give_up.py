"""Ends an unfinished run on the user's request (`--give-up`): its unpublished rows are deleted.

A driver that still runs the job is replaced: it stops at its next record. If another driver continues the job first,
giving up fails.
"""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from typing import assert_never

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import Journal, JournalReplaced, Settled, Written
from headrace.checkpoint.journal.records import FinishedRecord, Record
from headrace.checkpoint.paths import MANIFEST, STAGED
from headrace.checkpoint.stores.opening import OpenFolder, open_folder
from headrace.checkpoint.stores.store import ObjectStore
from headrace.core.clock import Clock
from headrace.core.errors import UserError
from headrace.spark.driver_machine.machine import ReplacedError


@dataclass(frozen=True, slots=True)
class GivenUp:
    """The result. rows: decided rows that are not known to be published; none or all of an epoch's may be."""

    job: str
    rows: int


def give_up(job: str, store: ObjectStore, clock: Clock, *, open_folder: OpenFolder = open_folder) -> GivenUp:
    """Ends a job and deletes its staged rows. store: its folder; open_folder: opens a savepoint's. Raises UserError if
    no run is unfinished, ExternalError.
    """
    journal = DriverJournal(store, job)
    found = journal.load()
    if not found.records or found.finished is not None:
        raise UserError("no run of this command is unfinished", remedy="leave out --give-up")
    decided, newest = found.uncommitted, found.checkpoints[-1] if found.checkpoints else None
    # first the record: from here on no driver can decide, so the staged rows have no owner
    journal.append(FinishedRecord(at_ms=clock.now_ms(), state="CANCELED"))
    store.delete(store.list(STAGED))
    store.delete([each.path for each in store.leftovers()])
    if newest is not None and newest.savepoint is not None:
        folder = open_folder(newest.savepoint)
        files = folder.list("")
        if MANIFEST not in files:
            folder.delete(files)
    return GivenUp(job, 0 if decided is None else sum(item.rows for item in decided.manifest.committables))


class DriverJournal:
    """Reads and writes a job's journal. `store`: the job's folder."""

    def __init__(self, store: ObjectStore, job: str) -> None:
        self._store = JournalStore(store, "", secrets.token_hex(8))
        self._job = job

    def load(self) -> Journal:
        """Reads the journal. Raises ExternalError, UserError."""
        return self._store.load()

    def append(self, draft: Record) -> None:
        """Appends a record. Raises ReplacedError if another driver continues the job, ExternalError."""
        result = self._store.append(draft)
        match result:
            case Written() | Settled():
                pass
            case JournalReplaced(number):
                raise ReplacedError(self._job, number)
            case _:
                assert_never(result)
