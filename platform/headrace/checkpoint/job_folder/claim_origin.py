"""Claims another job's checkpoint before a new job starts from it: writes records into the other job's journal, so that
a coordinator that still runs that job is superseded and stops.

A shell; `journal.resolve.require_claimable` decides whether the checkpoint may be claimed.
"""

from __future__ import annotations

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import JournalReplaced
from headrace.checkpoint.journal.records import AttemptRecord, FinishedRecord
from headrace.checkpoint.savepoints.savepoint import Found
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import UserError


def claim(found: Found, writer: str, at_ms: int) -> None:
    """Appends an `attempt` record to the journal of the checkpoint's job, then `finished`.

    Does nothing for a savepoint, which belongs to no job, nor for a job whose journal ends in `finished`.

    An `attempt` record invalidates every checkpoint after its `restored_epoch` (`Journal.checkpoints`). This one names
    the newest checkpoint, so all checkpoints of the other job stay valid. The `finished` record is for a coordinator of
    that job that starts again later: it reads that the job has ended, and does not continue from the same checkpoint as
    the new job. Output that was decided but not committed is aborted with the job's other open output, unless `headrace
    transactions commit` runs first; the user has accepted that by claiming.

    Raises UserError if another writer has continued the job meanwhile.
    """
    if found.journal is None or found.journal.finished is not None:
        return
    journal_store = JournalStore(open_store(found.folder), "", writer)
    journal = journal_store.load()
    if journal.head == found.journal.head:
        newest = journal.checkpoints[-1].manifest
        attempt = journal.newest_attempt
        result = journal_store.append(
            AttemptRecord(
                at_ms=at_ms,
                attempt=journal.attempt + 1,
                restored_epoch=newest.epoch,
                parallelism=1 if attempt is None else attempt.parallelism,
                plan_hash=newest.plan_hash,
                splits=dict(journal.splits),
            )
        )
        if not isinstance(result, JournalReplaced):
            result = journal_store.append(FinishedRecord(at_ms=at_ms, state="CANCELED"))
        if not isinstance(result, JournalReplaced):
            return
    raise UserError(
        f"job {found.manifest.job} is running: its journal grew while its checkpoint was looked at",
        remedy="stop it with a savepoint, and start from that",
    )
