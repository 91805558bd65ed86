"""Events of the job machine. Data only.

Events identify a slot by its index in the attempt; the driver translates slot ids. Messages of slots of an older
attempt never become events: the driver drops them by job and attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.checkpoint.journal.records import CheckpointRecord, FinishedRecord, StoppingRecord
from headrace.checkpoint.manifest import (
    CommittableDocument,
    Formats,
    Manifest,
    OutputTotal,
    SplitDocument,
    SubtaskDocument,
)
from headrace.rpc.messages import Failure
from headrace.rpc.status import SlotStatus

Splits = Mapping[str, tuple[SplitDocument, ...]]


@dataclass(frozen=True, slots=True)
class JournalRead:
    """The journal's content, as of the read.

    ticket         of the ReadJournal that this answers. The answer to an earlier one may lack records written since
    attempt        the newest attempt's number, 0 before the first
    epoch          the greatest epoch that was ever complete, 0 before the first
    restore        the newest complete checkpoint
    uncommitted    the record of the newest checkpoint, if no `committed` record follows it
    unfinished     the record of the newest checkpoint, if it is also a savepoint, whose manifest.json may be missing
    stopping       the record of a requested stop
    splits         the splits that enumerators resolved, once for the job's life
    parallelism    of the newest attempt, None before the first
    passed_over    epochs newer than `restore` that are damaged
    before         the newest checkpoint below `uncommitted`: the one to restore if the output of `uncommitted` has
                   expired
    transactions   sink -> names under which attempts so far may have left transactions open
    output         sink -> its committed output at `restore`, or where its output began
    formats        what formats have prepared
    """

    ticket: int
    attempt: int = 0
    epoch: int = 0
    restore: Manifest | None = None
    uncommitted: CheckpointRecord | None = None
    unfinished: CheckpointRecord | None = None
    stopping: StoppingRecord | None = None
    stopped: CheckpointRecord | None = None
    """The complete epoch of a requested stop: it only remains to commit it and return the path."""
    finished: FinishedRecord | None = None
    splits: Splits = field(default_factory=dict)
    parallelism: int | None = None
    passed_over: tuple[int, ...] = ()
    before: Manifest | None = None
    transactions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    output: Mapping[str, OutputTotal] = field(default_factory=dict)
    formats: Formats = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JournalFailed:
    """The journal cannot be read or written; retries have failed."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Replaced:
    """Another writer has appended to this job's journal: this coordinator must not decide anything any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class RecordWritten:
    """The record with this ticket is in the journal."""

    ticket: int


@dataclass(frozen=True, slots=True)
class SlotsGranted:
    """The requested slots are granted. workers[i]: the worker of slot i."""

    attempt: int
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ConnectorHostOpened:
    """The sinks are prepared, and enumerators and committers are open.

    intervals   source -> ms between discoveries, None: no discoveries
    final       sources that will find no further splits
    begins      sink -> the position in the external system at which output begins that is written from now on
    formats     what formats have prepared
    """

    splits: Splits
    intervals: Mapping[str, int | None]
    final: frozenset[str]
    begins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    formats: Formats = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ConnectorHostFailed:
    """The connector host died, or could not open. refused: the process is alive, and a connector raised the error."""

    failure: Failure
    refused: bool = False


@dataclass(frozen=True, slots=True)
class SplitsFound:
    """An enumerator found `splits` that were not known before."""

    source: str
    splits: tuple[SplitDocument, ...]


@dataclass(frozen=True, slots=True)
class SlotDeployed:
    """Slot `index` has opened and restored its subtasks."""

    index: int


@dataclass(frozen=True, slots=True)
class SlotFailed:
    """A subtask of the slot failed, or the slot's process ended, or its worker is lost."""

    index: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class CauseFound:
    """A slot of an earlier attempt has reported the cause of its end, which was no outage.

    The slots beside one that crashes lose their connection to it. Their failure arrives first.
    """

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class SlotsReleased:
    """Answers ReleaseSlots: every slot of the attempt has exited, was killed, or is lost with its worker."""


@dataclass(frozen=True, slots=True)
class SlotInputEnded:
    """All subtasks of the slot have reached the end of their input."""

    index: int


@dataclass(frozen=True, slots=True)
class SlotAcked:
    """All subtasks of the slot have their snapshot of the epoch in storage."""

    index: int
    epoch: int
    subtasks: tuple[SubtaskDocument, ...]


@dataclass(frozen=True, slots=True)
class SlotDeclined:
    """The slot could not write its snapshot of the epoch."""

    index: int
    epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class SlotLeaving:
    """The worker of slot `index` is going to end, as soon as no attempt runs there."""

    index: int
    worker: str


@dataclass(frozen=True, slots=True)
class SlotReported:
    """The slot's periodic status."""

    index: int
    status: SlotStatus


@dataclass(frozen=True, slots=True)
class Described:
    """All output that the epoch prepared can be committed. `committables`: with the data that their commit needs."""

    epoch: int
    committables: tuple[CommittableDocument, ...]


@dataclass(frozen=True, slots=True)
class DescribeFailed:
    """Some of the epoch's prepared output cannot be committed any more."""

    epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Committed:
    """All of the epoch's committables are visible, except `lost`: their transactions expired or were aborted."""

    epoch: int
    lost: tuple[CommittableDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class Fenced:
    """No transaction is open any more under the names that the attempt fenced."""

    attempt: int


@dataclass(frozen=True, slots=True)
class FenceFailed:
    """The committer failed permanently."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """The committer failed permanently."""

    epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class SavepointWritten:
    """The savepoint's manifest is written."""

    epoch: int


@dataclass(frozen=True, slots=True)
class SavepointFailed:
    """The savepoint's manifest could not be written. The checkpoint is still valid."""

    epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class SavepointAsked:
    """The user requests a savepoint in `folder` (a new URL), or with an empty `folder` a checkpoint."""

    request: str
    folder: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The user requests a stop with a savepoint in `folder` (None: with a last checkpoint only).

    drain      time advances to its end first
    within_ms  the job ends within this time, at its last complete checkpoint if it takes no other one; None:
               `JobConfig.stop_timeout_ms`
    """

    request: str
    folder: str | None
    drain: bool = False
    within_ms: int | None = None


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """The user requests the end of the job now. within_ms: how long slots, and then committers, may take; None: as the
    job's settings say."""

    request: str
    within_ms: int | None = None


@dataclass(frozen=True, slots=True)
class RescaleAsked:
    """The user requests another parallelism."""

    request: str
    parallelism: int


Asked = SavepointAsked | StopAsked | CancelAsked | RescaleAsked
"""Requests of users. Each is answered exactly once (`effects.Answer`), however the job ends."""


@dataclass(frozen=True, slots=True)
class Suspend:
    """The coordinator ends, and leaves the job to the next one."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """The time of `Machine.due_ms` is reached."""


@dataclass(frozen=True, slots=True)
class StopDue:
    """A requested stop gives up its last checkpoint. The machine makes this event of a Tick."""


Event = (
    JournalRead
    | JournalFailed
    | Replaced
    | RecordWritten
    | SlotsGranted
    | ConnectorHostOpened
    | ConnectorHostFailed
    | SplitsFound
    | SlotDeployed
    | SlotFailed
    | CauseFound
    | SlotsReleased
    | SlotInputEnded
    | SlotAcked
    | SlotDeclined
    | SlotReported
    | SlotLeaving
    | Described
    | DescribeFailed
    | Committed
    | Fenced
    | FenceFailed
    | CommitFailed
    | SavepointWritten
    | SavepointFailed
    | Asked
    | Suspend
    | Tick
    | StopDue
)
