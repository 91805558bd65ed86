"""Access to the journal of a job for commands that end it without a driver. A record is appended, or the append fails
because another driver continues the job."""

from __future__ import annotations

import secrets
from typing import assert_never

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import Journal, JournalReplaced, Settled, Written
from headrace.checkpoint.journal.records import Record
from headrace.checkpoint.stores.store import ObjectStore
from headrace.spark.driver_machine.errors import ReplacedError


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
