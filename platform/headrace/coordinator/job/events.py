"""What can happen to a job: everything that its machine is told. Shapes only.

Slots are known here by their index in the attempt; the driver translates the ids of processes. Events of an older
attempt never reach the machine: the driver drops them by job and attempt.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from headrace.checkpoint.journal.records import CheckpointRecord, FinishedRecord, StoppingRecord
from headrace.checkpoint.manifest import CommittableDocument, Manifest, OutputTotal, SplitDocument, SubtaskDocument
from headrace.rpc.messages import Failure
from headrace.rpc.status import SlotStatus

Splits = Mapping[str, tuple[SplitDocument, ...]]


@dataclass(frozen=True, slots=True)
class JournalRead:
    """What the journal says, read just now.

    attempt       the newest attempt's number, 0 before the first
    epoch         the greatest epoch that was ever complete, 0 before the first
    restore       the newest complete checkpoint
    uncommitted   its record, where no `committed` follows it
    unfinished    its record, where it fills a savepoint whose own manifest may be missing
    savepoint     URL of the savepoint that the newest attempt began with, where it has no checkpoint of its own
    splits        what enumerators resolved, once for the job's life
    parallelism   of the newest attempt, None before the first
    passed_over   epochs newer than `restore` that are damaged
    before        the newest checkpoint below `uncommitted`: to go on from, where the output of that one has expired
    transactions  sink -> names under which attempts so far may have left output open
    output        sink -> what it has committed at `restore`, or where it began
    """

    attempt: int = 0
    epoch: int = 0
    restore: Manifest | None = None
    uncommitted: CheckpointRecord | None = None
    unfinished: CheckpointRecord | None = None
    stopping: StoppingRecord | None = None
    stopped: CheckpointRecord | None = None
    """The complete epoch of a stop that was asked for: what is left is to commit it and hand out the path."""
    finished: FinishedRecord | None = None
    splits: Splits = field(default_factory=dict)
    parallelism: int | None = None
    passed_over: tuple[int, ...] = ()
    before: Manifest | None = None
    transactions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    output: Mapping[str, OutputTotal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JournalFailed:
    """The journal cannot be read or written, and trying again did not help."""

    failure: Failure


@dataclass(frozen=True, slots=True)
class Replaced:
    """Somebody else writes this job's journal: this coordinator must not decide any more."""

    reason: str


@dataclass(frozen=True, slots=True)
class RecordWritten:
    """The record asked for with this ticket stands in the journal."""

    ticket: int


@dataclass(frozen=True, slots=True)
class SlotsGranted:
    """As many slots as were asked for. workers[i]: the worker of slot i."""

    attempt: int
    workers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HostOpened:
    """Sinks are prepared, enumerators open. intervals: source -> ms between looks for new splits, None: never.

    final: sources that will find no further splits. begins: sink -> where its output begins outside, as it is now.
    """

    splits: Splits
    intervals: Mapping[str, int | None]
    final: frozenset[str]
    begins: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class HostFailed:
    """The connector host died, or could not open. refused: a connector has answered so, the process is there."""

    failure: Failure
    refused: bool = False


@dataclass(frozen=True, slots=True)
class SplitsFound:
    """An enumerator was asked again; `splits` are those not known before."""

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
class SlotsReleased:
    """After ReleaseSlots: every slot of the attempt has left, was killed, or is lost with its worker."""


@dataclass(frozen=True, slots=True)
class SlotInputEnded:
    """All subtasks of the slot have seen the end of their input."""

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
class SlotReported:
    """How the slot stands."""

    index: int
    status: SlotStatus


@dataclass(frozen=True, slots=True)
class Described:
    """All that the epoch prepared can be committed. `committables`: with what that takes."""

    epoch: int
    committables: tuple[CommittableDocument, ...]


@dataclass(frozen=True, slots=True)
class DescribeFailed:
    """Something that the epoch prepared cannot be committed any more."""

    epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class Committed:
    """Everything that the epoch's committables name is visible, but for `lost`: the outside has given that up."""

    epoch: int
    lost: tuple[CommittableDocument, ...] = ()


@dataclass(frozen=True, slots=True)
class Fenced:
    """Nothing is open any more under the names that the attempt wanted fenced."""

    attempt: int


@dataclass(frozen=True, slots=True)
class FenceFailed:
    """The committer refused for good."""

    attempt: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """The committer refused for good."""

    epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class SavepointWritten:
    """The savepoint's manifest stands in its folder."""

    epoch: int


@dataclass(frozen=True, slots=True)
class SavepointFailed:
    """The savepoint's manifest could not be written; the checkpoint is none the worse for it."""

    epoch: int
    failure: Failure


@dataclass(frozen=True, slots=True)
class SavepointAsked:
    """The user wants a savepoint in `folder` (URL, new)."""

    request: str
    folder: str


@dataclass(frozen=True, slots=True)
class StopAsked:
    """The user wants the job to end with a savepoint in `folder` (None: with a last checkpoint only).

    drain   time goes to the end before
    """

    request: str
    folder: str | None
    drain: bool = False


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """The user wants the job to end now."""

    request: str


@dataclass(frozen=True, slots=True)
class RescaleAsked:
    """The user wants another parallelism."""

    request: str
    parallelism: int


Asked = SavepointAsked | StopAsked | CancelAsked | RescaleAsked
"""What users want. Each is answered once (`effects.Answer`), whatever becomes of the job."""


@dataclass(frozen=True, slots=True)
class Suspend:
    """The coordinator leaves."""

    reason: str


@dataclass(frozen=True, slots=True)
class Tick:
    """Time has passed: `Machine.due_ms` is reached."""


Event = (
    JournalRead
    | JournalFailed
    | Replaced
    | RecordWritten
    | SlotsGranted
    | HostOpened
    | HostFailed
    | SplitsFound
    | SlotDeployed
    | SlotFailed
    | SlotsReleased
    | SlotInputEnded
    | SlotAcked
    | SlotDeclined
    | SlotReported
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
)
