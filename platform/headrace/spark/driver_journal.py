"""A driver's way to its job's journal: a record is written, or somebody else has taken over and this driver stops."""

from __future__ import annotations

import secrets
from typing import assert_never

from headrace.checkpoint.journal import Journal, Prunable, Replaced, Settled, Written
from headrace.checkpoint.journal_shell import JournalStore
from headrace.checkpoint.records import Record
from headrace.checkpoint.store import ObjectStore
from headrace.core.errors import ExternalError


class DriverJournal:
    """One driver's writing end. `store`: the job's folder."""

    def __init__(self, store: ObjectStore, job: str) -> None:
        self._store = JournalStore(store, "", secrets.token_hex(8))
        self._job = job

    def load(self) -> Journal:
        """Reads all of it. Raises ExternalError, UserError."""
        return self._store.load()

    @property
    def journal(self) -> Journal:
        """As last read or written."""
        return self._store.journal

    def append(self, draft: Record) -> None:
        """Writes a record. Raises ExternalError where another driver goes on with the job."""
        verdict = self._store.append(draft)
        match verdict:
            case Written() | Settled():
                pass
            case Replaced():
                raise ExternalError(
                    f"another driver runs {self._job} now (record {verdict.number} of its journal is not this one's)",
                    remedy="let that one go on, or end it and give the command again",
                )
            case _:
                assert_never(verdict)

    def prune(self, retained: int) -> Prunable:
        """Deletes what is older than the `retained` newest checkpoints."""
        return self._store.prune(retained)
