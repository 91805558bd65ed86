"""A job's history from its journal: the newest checkpoint, and whether a writer may still write. Pure.

    records  1 ──── 2 .. 40 (pruned) ──── 41 ── 42 ── 43 ── 44        next: 45, put-if-absent
             │                            └ contiguous up to the head: this is the history
             └ below: the newest attempt's record is kept; anything else there is a late put of a replaced writer

A writer puts its record at exactly head + 1. If the number is taken, or if a higher one exists after its put, another
writer has continued: this one has been replaced. The second test is needed because numbers below the oldest retained
checkpoint are deleted. So a writer that was suspended may put its record at a free number far below the head. That
record is not history: there is a gap between it and the next record, or the next record's `after` names another
predecessor.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from headrace.checkpoint.journal.records import (
    AttemptRecord,
    CheckpointRecord,
    CommittedRecord,
    FinishedRecord,
    Record,
    StoppingRecord,
)
from headrace.checkpoint.manifest import Formats, Manifest, OutputTotal, SplitDocument
from headrace.checkpoint.paths import is_absolute
from headrace.core.errors import ExternalError


class JournalCorruptError(ExternalError):
    """Records are missing that pruning never deletes, so the newest checkpoint is unknown. A listing that another
    process's put overlaps may lack the same records, so the error has `retry`."""


@dataclass(frozen=True, slots=True)
class Written:
    """The record was written, and no higher one exists."""

    record: Record
    journal: Journal


@dataclass(frozen=True, slots=True)
class Settled:
    """Nothing was written now: an earlier put of the same writer had succeeded, and its response was lost. The record
    of that put is part of the journal. The writer acted as if the put had failed, so it must decide again."""

    record: Record
    journal: Journal


@dataclass(frozen=True, slots=True)
class JournalReplaced:
    """Another writer has continued this journal. number: the record that proves it; writer: the token of a writer that
    has continued, if a record of it was read."""

    number: int
    writer: str | None = None

    @property
    def reason(self) -> str:
        """The reason, for messages."""
        return f"record {self.number} of the job's journal is another coordinator's: this one has been replaced"


PutResult = Written | Settled | JournalReplaced


@dataclass(frozen=True, slots=True)
class Prunable:
    """Deletable objects: first the records, in ascending order, then the files (relative to the job's folder)."""

    numbers: tuple[int, ...] = ()
    files: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Journal:
    """The records that are history, ascending without a gap, and what lies below them.

    kept    the newest attempt's record, if it lies below the others
    stray   numbers of all other records below: they are not history
    """

    records: tuple[Record, ...] = ()
    kept: AttemptRecord | None = None
    stray: tuple[int, ...] = ()

    @staticmethod
    def load(records: Iterable[Record]) -> Journal:
        """The journal from all its records, in any order. Raises JournalCorruptError."""
        ordered = sorted(records, key=lambda record: record.number)
        # from the head downwards: history ends at the first gap, or at a record of another chain
        start = len(ordered) - 1
        while start > 0 and _follows(ordered[start], ordered[start - 1]):
            start -= 1
        history = tuple(ordered[max(start, 0) :])
        below = ordered[: max(start, 0)]
        # pruning keeps at least one checkpoint record, so a history that begins later than 1 must hold one
        if history and history[0].number > 1 and not any(isinstance(each, CheckpointRecord) for each in history):
            raise JournalCorruptError(
                f"the journal has no record {history[0].number - 1}, and no checkpoint after it",
                remedy="restore the missing file of the journal folder, or start a new job from a savepoint",
                retry=True,
            )
        kept = _kept(history, below)
        return Journal(history, kept, tuple(each.number for each in below if each is not kept))

    @property
    def head(self) -> int:
        """Number of the newest record, 0 before the first."""
        return self.records[-1].number if self.records else 0

    @property
    def at_ms(self) -> int:
        """Time of the newest record, by its writer's clock; 0 before the first."""
        return self.records[-1].at_ms if self.records else 0

    @property
    def newest_attempt(self) -> AttemptRecord | None:
        """The newest attempt's record."""
        attempts = [each for each in self.records if isinstance(each, AttemptRecord)]
        return attempts[-1] if attempts else self.kept

    @property
    def attempt(self) -> int:
        """The greatest attempt so far, 0 before the first."""
        return max((_attempt(each) for each in (*self.records, *self._kept_alone)), default=0)

    @property
    def epoch(self) -> int:
        """The greatest epoch that was ever complete, discarded later or not; 0 before the first."""
        return max((_epoch(each) for each in (*self.records, *self._kept_alone)), default=0)

    @property
    def checkpoints(self) -> tuple[CheckpointRecord, ...]:
        """Complete checkpoints that may be restored, ascending. An attempt that restored an earlier one, or none, has
        discarded those after it."""
        live: list[CheckpointRecord] = []
        for record in self.records:
            match record:
                case CheckpointRecord():
                    live.append(record)
                case AttemptRecord(restored_epoch=None):
                    live.clear()
                case AttemptRecord(restored_epoch=int(epoch)):
                    live = [each for each in live if each.manifest.epoch <= epoch]
                case _:
                    pass
        return tuple(live)

    @property
    def uncommitted(self) -> CheckpointRecord | None:
        """The newest checkpoint, if it is decided and not recorded as committed."""
        checkpoints = self.checkpoints
        if not checkpoints:
            return None
        epoch = checkpoints[-1].manifest.epoch
        done = any(isinstance(each, CommittedRecord) and each.epoch == epoch for each in self.records)
        return None if done else checkpoints[-1]

    @property
    def finished(self) -> FinishedRecord | None:
        """The end of the job; None if it has not ended, or a later attempt (`run --resume`) has started it again."""
        for record in reversed(self.records):
            match record:
                case FinishedRecord():
                    return record
                case AttemptRecord():
                    return None
                case _:
                    pass
        return None

    @property
    def stopping(self) -> StoppingRecord | None:
        """The user's request to stop, unless the job has ended since."""
        for record in reversed(self.records):
            match record:
                case StoppingRecord():
                    return record
                case FinishedRecord():
                    return None
                case _:
                    pass
        return None

    @property
    def stopped(self) -> CheckpointRecord | None:
        """The complete epoch of the requested stop. It is the newest one after the `stopping` record, because an epoch
        that was in flight when the stop was requested may be recorded between them."""
        stopping = self.stopping
        if stopping is None:
            return None
        for record in reversed(self.checkpoints):
            if record.number > stopping.number and stopping.savepoint in {None, record.savepoint}:
                return record
        return None

    @property
    def formats(self) -> Formats:
        """What formats have prepared, from the newest record that has it."""
        for record in (*reversed(self.records), *self._kept_alone):
            match record:
                case CheckpointRecord() if record.manifest.formats:
                    return record.manifest.formats
                case AttemptRecord() if record.formats:
                    return record.formats
                case _:
                    pass
        return {}

    @property
    def splits(self) -> Mapping[str, tuple[SplitDocument, ...]]:
        """The splits that enumerators resolved, from the newest record that has them."""
        for record in (*reversed(self.records), *self._kept_alone):
            match record:
                case CheckpointRecord() if record.manifest.splits:
                    return record.manifest.splits
                case AttemptRecord() if record.splits:
                    return record.splits
                case _:
                    pass
        return {}

    @property
    def transactions(self) -> Mapping[str, tuple[str, ...]]:
        """Sink -> every name under which the recorded attempts may have left output open."""
        names: dict[str, dict[str, None]] = {}
        for record in (*self._kept_alone, *self.records):
            match record:
                case AttemptRecord(transactions=told) | CheckpointRecord(manifest=Manifest(transactions=told)):
                    for sink, own in told.items():
                        names.setdefault(sink, {}).update(dict.fromkeys(own))
                case _:
                    pass
        return {sink: tuple(own) for sink, own in names.items()}

    @property
    def output(self) -> Mapping[str, OutputTotal]:
        """Sink -> its committed output at the newest checkpoint, or at the start of the newest attempt without one."""
        checkpoints, attempt = self.checkpoints, self.newest_attempt
        if checkpoints:
            return checkpoints[-1].manifest.output
        return {} if attempt is None else attempt.output

    def next(self, draft: Record, writer: str) -> Record:
        """The draft with number head + 1, `writer` and `after`."""
        after = _mark(self.records[-1]) if self.records else ""
        return draft.model_copy(update={"number": self.head + 1, "writer": writer, "after": after})

    def on_put(self, put: Record, found: Record | None, higher: Iterable[int]) -> PutResult:
        """Returns the result of a put of `put` (made by `next`).

        found    None: the record was written; else the record that already had its number
        higher   numbers above it, listed after the put
        """
        assert put.number == self.head + 1, "a record is put at head + 1"
        above = max((number for number in higher if number > put.number), default=None)
        # checked first: a put below the head succeeds if its number was pruned, and still must not count
        if above is not None:
            return JournalReplaced(above, None if found is None else found.writer)
        if found is None:
            return Written(put, self._with(put))
        if found.writer != put.writer:
            return JournalReplaced(found.number, found.writer)
        # the same writer's token: the store wrote an earlier put whose response was lost, perhaps of another draft
        stands = self._with(found)
        return Written(found, stands) if _same(put, found) else Settled(found, stands)

    def prunable(self, retained: int) -> Prunable:
        """The records and files to delete so that `retained` committed checkpoints remain (and a newer, uncommitted
        one). The checkpoint that the running attempt restored is one of them until that attempt has completed one.

        While a stop is in progress nothing is deleted: every record may be needed to find the epoch of the stop.
        """
        assert retained > 0, "one checkpoint is always retained"
        uncommitted = self.uncommitted
        committed = [each for each in self.checkpoints if each is not uncommitted]
        if not committed or self.stopping is not None:
            return Prunable()
        oldest = committed[-retained:][0].number
        kept = self.newest_attempt
        numbers = [each.number for each in self.records if each.number < oldest and each is not kept]
        # a later checkpoint may still refer to a file of a pruned one
        named = {path for each in self.checkpoints if each.number >= oldest for path in own_files(each.manifest)}
        gone = {
            path
            for each in self.records
            if isinstance(each, CheckpointRecord) and each.number < oldest
            for path in own_files(each.manifest)
        }
        return Prunable(tuple(sorted({*numbers, *self.stray})), tuple(sorted(gone - named)))

    def pruned(self, gone: Prunable) -> Journal:
        """The journal without the deleted records."""
        numbers = set(gone.numbers)
        kept = self.newest_attempt
        records = tuple(each for each in self.records if each.number not in numbers)
        start = len(records) - 1
        while start > 0 and records[start].number == records[start - 1].number + 1:
            start -= 1
        history = records[max(start, 0) :]
        stray = tuple(number for number in self.stray if number not in numbers)
        return Journal(history, None if kept in history else kept, stray)

    def _with(self, record: Record) -> Journal:
        kept = None if isinstance(record, AttemptRecord) else self.kept
        stray = self.stray if self.kept is kept or self.kept is None else (*self.stray, self.kept.number)
        return replace(self, records=(*self.records, record), kept=kept, stray=stray)

    @property
    def _kept_alone(self) -> tuple[AttemptRecord, ...]:
        return () if self.kept is None else (self.kept,)


def own_files(manifest: Manifest) -> set[str]:
    """Files in the job's own folder that a manifest names."""
    return {part.path for handle in manifest.states for part in handle.files if not is_absolute(part.path)}


def _follows(record: Record, before: Record) -> bool:
    return record.number == before.number + 1 and record.after in {"", _mark(before)}


def _mark(record: Record) -> str:
    return f"{record.writer}@{record.at_ms}"


def _kept(history: tuple[Record, ...], below: list[Record]) -> AttemptRecord | None:
    if any(isinstance(each, AttemptRecord) for each in history):
        return None
    attempt = max((_attempt(each) for each in history), default=0)
    fitting = [each for each in below if isinstance(each, AttemptRecord) and each.attempt == attempt]
    return fitting[-1] if fitting else None


def _attempt(record: Record) -> int:
    match record:
        case AttemptRecord():
            return record.attempt
        case CheckpointRecord():
            return record.manifest.attempt
        case _:
            return 0


def _epoch(record: Record) -> int:
    match record:
        case AttemptRecord():
            return record.restored_epoch or 0
        case CheckpointRecord():
            return record.manifest.epoch
        case CommittedRecord():
            return record.epoch
        case _:
            return 0


def _same(put: Record, found: Record) -> bool:
    """Whether the records are equal except for the time: a retried put may carry a later one."""
    return put.model_copy(update={"at_ms": found.at_ms}) == found
