"""The steps of a recovery, and the checkpoint that it restores, derived from a loaded journal. Pure.

    newest complete checkpoint ── not committed? ──> commit it first (a second commit changes nothing), then `committed`
            │
            ├── stop requested, and this is its epoch ──> only commit, write the savepoint's manifest, return its path
            ├── stop requested, but its epoch is not complete ──> restore, take the savepoint at once, end
            └── else ──> restore, next attempt

A damaged checkpoint is skipped only if it has no output to commit. If it has output, that output is or may be visible,
and restoring an earlier checkpoint would write it again: then the user must choose.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.journal.records import CheckpointRecord, FinishedRecord, StoppingRecord
from headrace.checkpoint.manifest import Formats, Manifest, OutputTotal, SplitDocument
from headrace.core.config import duration_text
from headrace.core.errors import ExternalError, UserError


class CheckpointUnusableError(ExternalError):
    """The newest checkpoint cannot be read, and there is no earlier one, or restoring an earlier one would repeat
    output that is, or may be, visible."""


@dataclass(frozen=True, slots=True)
class Resolution:
    """The recovery, in the order of its steps.

    commit_first   the record of the newest checkpoint, if no `committed` record follows it
    unfinished     the record of the newest checkpoint, if its epoch is also a savepoint. A coordinator that died after
                   it put the record may not have written the savepoint's manifest.json: then the recovery writes it
    finished       the record of the job's end: there is nothing to do
    stopped        the record of the requested stop's epoch, if it is complete: there is nothing to run
    stopping       the record of a requested stop
    restore        the checkpoint of this job to restore
    begins_with    if `restore` is None: manifest URL of the savepoint from which the newest attempt started
    attempt, epoch the greatest numbers so far, 0 before the first
    passed_over    epochs that are newer than `restore`, but damaged
    before         the checkpoint to restore if the output of `commit_first` is lost: the one below it, if any
    transactions   sink -> names under which output may be open
    output         sink -> its committed output at `restore`
    formats        what formats have prepared
    """

    commit_first: CheckpointRecord | None
    unfinished: CheckpointRecord | None
    finished: FinishedRecord | None
    stopped: CheckpointRecord | None
    stopping: StoppingRecord | None
    restore: Manifest | None
    begins_with: str | None
    attempt: int
    epoch: int
    parallelism: int | None
    splits: Mapping[str, tuple[SplitDocument, ...]]
    passed_over: tuple[int, ...] = ()
    before: Manifest | None = None
    transactions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    output: Mapping[str, OutputTotal] = field(default_factory=dict)
    formats: Formats = field(default_factory=dict)

    @property
    def next_attempt(self) -> int:
        """The number of the attempt to start."""
        return self.attempt + 1

    @property
    def ends(self) -> bool:
        """Whether there is nothing to run."""
        return self.finished is not None or self.stopped is not None


def resolve(journal: Journal, damaged: Mapping[int, str] | None = None) -> Resolution:
    """The recovery of the job with this journal.

    damaged   epochs whose files are missing or damaged -> the reason

    Raises CheckpointUnusableError if a damaged epoch cannot be skipped.
    """
    restore, passed_over = _usable(journal, damaged or {})
    newest = journal.checkpoints[-1] if journal.checkpoints else None
    uncommitted = journal.uncommitted
    first = journal.newest_attempt
    return Resolution(
        commit_first=uncommitted,
        # for every savepoint: the journal does not show whether manifest.json was written before a crash, and writing
        # it again changes nothing
        unfinished=newest if newest is not None and newest.savepoint is not None else None,
        finished=journal.finished,
        stopped=journal.stopped,
        stopping=journal.stopping,
        restore=None if restore is None else restore.manifest,
        begins_with=first.savepoint if restore is None and first is not None else None,
        attempt=journal.attempt,
        epoch=journal.epoch,
        parallelism=None if first is None else first.parallelism,
        splits=journal.splits,
        passed_over=passed_over,
        before=journal.checkpoints[-2].manifest if uncommitted is not None and len(journal.checkpoints) > 1 else None,
        transactions=journal.transactions,
        output=journal.output if restore is None else restore.manifest.output,
        formats=journal.formats,
    )


def _usable(journal: Journal, damaged: Mapping[int, str]) -> tuple[CheckpointRecord | None, tuple[int, ...]]:
    """The newest checkpoint that can be restored, and the damaged epochs above it, newest first."""
    checkpoints = journal.checkpoints
    passed_over: list[int] = []
    for record in reversed(checkpoints):
        epoch = record.manifest.epoch
        if epoch not in damaged:
            return record, tuple(passed_over)
        passed_over.append(epoch)
        earlier = [each.manifest.epoch for each in checkpoints if each.manifest.epoch < epoch]
        # committables of a decided epoch are, or may become, visible
        if record.manifest.committables or not earlier:
            raise _unusable(record, damaged[epoch], earlier)
    return None, ()


def _unusable(record: CheckpointRecord, reason: str, earlier: list[int]) -> CheckpointUnusableError:
    job, epoch = record.manifest.job, record.manifest.epoch
    if not earlier:
        return CheckpointUnusableError(
            f"checkpoint {epoch} of job {job} cannot be restored, and there is no earlier one: {reason}",
            remedy="put its files back; or submit the pipeline anew, from a savepoint if there is one",
        )
    sinks = ", ".join(sorted({item.sink for item in record.manifest.committables}))
    return CheckpointUnusableError(
        f"checkpoint {epoch} of job {job} cannot be restored: {reason}\n"
        f"  output of {sinks} up to it is, or may be, visible: going on from checkpoint {earlier[-1]} would repeat it",
        remedy="put the files back; or, if repeated output is fine, cancel the job and submit it with --from-savepoint "
        f"of the record of checkpoint {earlier[-1]} (`headrace checkpoints {job}` shows its path)",
    )


def require_claimable(journal: Journal, job: str, now_ms: int, interval_ms: int, timeout_ms: int) -> None:
    """Raises UserError while `job` may still be running, so that another job must not start from its checkpoint.

    Its journal must end in `finished`, or have had no record for interval + timeout (`--take-over` skips this check).
    """
    if journal.finished is not None:
        return
    silent_ms = now_ms - journal.at_ms
    needed_ms = interval_ms + timeout_ms
    if silent_ms >= needed_ms:
        return
    raise UserError(
        f"job {job} may still be running: its journal does not end in `finished`, and its last record is "
        f"{duration_text(max(silent_ms, 0) // 1000 * 1000)} old (interval + timeout: {duration_text(needed_ms)})",
        remedy=f"stop it (`headrace stop {job} --savepoint DIR`) and start from the savepoint; "
        "or --take-over, if you know that it is dead",
    )
