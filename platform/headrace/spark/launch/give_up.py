"""Ends an unfinished run on the user's request (`--give-up`): its unpublished rows are deleted.

A driver that still runs the job is replaced: it stops at its next record.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.checkpoint.journal.records import FinishedRecord
from headrace.checkpoint.paths import MANIFEST, STAGED
from headrace.checkpoint.stores.opening import OpenFolder, open_folder
from headrace.checkpoint.stores.store import ObjectStore
from headrace.core.clock import Clock
from headrace.core.errors import UserError
from headrace.spark.driver.ending import DriverJournal


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
