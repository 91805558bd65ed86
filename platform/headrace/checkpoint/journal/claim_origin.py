"""Claims another job's checkpoint: a record in that job's journal supersedes its writer before a new job starts from
it.

A shell; `resolve.require_claimable` decides whether the checkpoint may be claimed.
"""

from __future__ import annotations

from headrace.checkpoint.journal.journal import Replaced
from headrace.checkpoint.journal.journal_store import JournalStore
from headrace.checkpoint.journal.records import AttemptRecord, FinishedRecord
from headrace.checkpoint.savepoints.savepoint import Found
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import UserError


def claim(found: Found, writer: str, at_ms: int) -> None:
    """Appends an `attempt` record to the journal of the checkpoint's job, then `finished`.

    Does nothing for a savepoint, which belongs to no job, nor for a job whose journal ends in `finished`. The `attempt`
    record restores the newest checkpoint, so it discards nothing of the other job. The `finished` record is for a
    coordinator of that job that returns: two jobs must not continue from one checkpoint. Output that was decided but
    not committed is aborted with the job's other open output, unless `headrace transactions commit` runs first; the
    user has accepted that by claiming. Raises UserError if another writer has continued the job meanwhile.
    """
    if found.journal is None or found.journal.finished is not None:
        return
    journal_store = JournalStore(open_store(found.folder), "", writer)
    journal = journal_store.load()
    if journal.head == found.journal.head:
        newest = journal.checkpoints[-1].manifest
        attempt = journal.newest_attempt
        verdict = journal_store.append(
            AttemptRecord(
                at_ms=at_ms,
                attempt=journal.attempt + 1,
                restored_epoch=newest.epoch,
                parallelism=1 if attempt is None else attempt.parallelism,
                plan_hash=newest.plan_hash,
                splits=dict(journal.splits),
            )
        )
        if not isinstance(verdict, Replaced):
            verdict = journal_store.append(FinishedRecord(at_ms=at_ms, state="CANCELED"))
        if not isinstance(verdict, Replaced):
            return
    raise UserError(
        f"job {found.manifest.job} is running: its journal grew while its checkpoint was looked at",
        remedy="stop it with a savepoint, and start from that",
    )
