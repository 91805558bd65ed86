"""A job that starts from another job's checkpoint tells that job's journal first, so that whoever may still write it
stops for good. A shell; whether it may be claimed at all is `resolve.require_claimable`."""

from __future__ import annotations

from headrace.checkpoint.journal.journal import Replaced
from headrace.checkpoint.journal.records import AttemptRecord, FinishedRecord
from headrace.checkpoint.journal.shell import JournalStore
from headrace.checkpoint.savepoints.savepoint import Found
from headrace.checkpoint.stores.opening import open_store
from headrace.core.errors import UserError


def claim(found: Found, writer: str, at_ms: int) -> None:
    """Puts an `attempt` record into the journal of the checkpoint's job, and `finished` behind it.

    Nothing is done for a savepoint, which belongs to nobody, nor for a job whose journal ends in `finished`. The
    record restores the newest checkpoint: it gives up nothing of the other job. The end is recorded for a coordinator
    that comes back to that job: two jobs must not go on from one checkpoint. Output that was decided and not committed
    is ended with the rest that the job left open, unless `headrace transactions commit` comes first: whoever starts
    behind it has said that this is fine. Raises UserError where somebody else went on with it meanwhile.
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
