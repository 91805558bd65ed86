"""The way to a job's journal for one who ends it: a record is written, or somebody else goes on with the job."""

from __future__ import annotations

import secrets
from typing import assert_never

from headrace.checkpoint.journal.journal import Journal, Replaced, Settled, Written
from headrace.checkpoint.journal.records import Record
from headrace.checkpoint.journal.shell import JournalStore
from headrace.checkpoint.stores.store import ObjectStore
from headrace.spark.driver_machine.errors import ReplacedError


class DriverJournal:
    """A writing end. `store`: the job's folder."""

    def __init__(self, store: ObjectStore, job: str) -> None:
        self._store = JournalStore(store, "", secrets.token_hex(8))
        self._job = job

    def load(self) -> Journal:
        """Reads all of it. Raises ExternalError, UserError."""
        return self._store.load()

    def append(self, draft: Record) -> None:
        """Writes a record. Raises ExternalError where another driver goes on with the job."""
        verdict = self._store.append(draft)
        match verdict:
            case Written() | Settled():
                pass
            case Replaced(number):
                raise ReplacedError(self._job, number)
            case _:
                assert_never(verdict)
