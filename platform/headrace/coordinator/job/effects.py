"""Effects of the job machine: commands for its driver, and the event that the machine receives when one fails. Pure.

The driver executes effects in order. `-> X, Y`: one of these events answers the effect. Effects that can fail or that
need time promise such an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import assert_never

from headrace.checkpoint.manifest import CommittableDocument, Formats, Manifest, OutputTotal, StateHandle
from headrace.coordinator.job import events as on
from headrace.coordinator.job.events import Splits
from headrace.coordinator.job.job_state import JobState
from headrace.rpc.messages import Failure, ToSlot


@dataclass(frozen=True, slots=True)
class ReadJournal:
    """Read the journal again, after all pending writes -> JournalRead(ticket), JournalFailed, Replaced."""

    ticket: int


@dataclass(frozen=True, slots=True)
class WriteAttempt:
    """Write the record of an attempt -> RecordWritten(ticket), JournalFailed, Replaced, as for all records."""

    ticket: int
    attempt: int
    restored_epoch: int | None
    savepoint: str | None
    parallelism: int
    plan_hash: str
    splits: Splits
    transactions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    output: Mapping[str, OutputTotal] = field(default_factory=dict)
    formats: Formats = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WriteCheckpoint:
    """Write the record of a complete epoch: the decision to commit it. savepoint: URL of the folder, if the epoch is
    also a savepoint; took_ms: time since its trigger."""

    ticket: int
    manifest: Manifest
    savepoint: str | None
    savepoint_states: tuple[StateHandle, ...]
    took_ms: int


@dataclass(frozen=True, slots=True)
class WriteCommitted:
    """Write the record that the epoch is committed."""

    ticket: int
    epoch: int


@dataclass(frozen=True, slots=True)
class WriteStopping:
    """Write the record of a requested stop."""

    ticket: int
    savepoint: str | None
    drain: bool


@dataclass(frozen=True, slots=True)
class WriteFinished:
    """Write the record of the job's end."""

    ticket: int
    state: JobState
    savepoint: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RequestSlots:
    """Request slots -> SlotsGranted, once `count` slots are free."""

    attempt: int
    count: int


@dataclass(frozen=True, slots=True)
class ReleaseSlots:
    """Withdraw the request for slots, and end the attempt's slots: cancel them, then kill those that do not exit ->
    SlotsReleased.
    """


@dataclass(frozen=True, slots=True)
class OpenHost:
    """Start the connector host unless it runs, and open the job's enumerators -> ConnectorHostOpened or
    ConnectorHostFailed.

    foreign   `known` comes from a savepoint of another job: the stops of its splits are resolved again
    accepted  topics that may differ from those of `known`: they begin as new ones
    formats   what formats have prepared before
    """

    known: Splits
    foreign: bool = False
    accepted: tuple[str, ...] = ()
    formats: Formats = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class CloseHost:
    """End the connector host."""


@dataclass(frozen=True, slots=True)
class Discover:
    """Request new splits from a source's enumerator -> SplitsFound, if there are any. A failure never fails the job:
    the machine requests it again."""

    source: str


@dataclass(frozen=True, slots=True)
class DeploySlots:
    """Send every slot of the attempt its deployment -> one SlotDeployed or SlotFailed each.

    restore   the manifest to restore; None: none
    own       `restore` is a checkpoint of this job; False: it is the job's origin
    reused    the attempt's checkpoints may name the files of `restore` again
    formats   what formats have prepared
    """

    attempt: int
    parallelism: int
    restore: Manifest | None
    own: bool
    reused: bool = False
    formats: Formats = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Send:
    """Send one slot of the attempt a message."""

    index: int
    message: ToSlot


@dataclass(frozen=True, slots=True)
class SendAll:
    """Send every slot of the attempt a message."""

    message: ToSlot


@dataclass(frozen=True, slots=True)
class Describe:
    """Check whether the epoch's output can be committed, and add the data that the commit needs -> Described,
    DescribeFailed."""

    epoch: int
    committables: tuple[CommittableDocument, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Make the epoch's output visible -> Committed, CommitFailed. Idempotent."""

    epoch: int
    committables: tuple[CommittableDocument, ...]


@dataclass(frozen=True, slots=True)
class Fence:
    """Abort open transactions under these names, by sink, and fence their writers -> Fenced, FenceFailed."""

    attempt: int
    names: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Sweep:
    """End transactions that writers of earlier attempts began after they were fenced. No event answers: the machine
    requests it again."""

    attempt: int


@dataclass(frozen=True, slots=True)
class WriteSavepoint:
    """Write the savepoint's own manifest, the last of its files -> SavepointWritten, SavepointFailed."""

    manifest: Manifest
    folder: str


@dataclass(frozen=True, slots=True)
class Prune:
    """Delete checkpoints beyond those retained, and files that no checkpoint names."""

    retained: int


@dataclass(frozen=True, slots=True)
class Answer:
    """Answer a user's request: it has succeeded, with a path (savepoint, stop) or without one, or it has failed.

    note   what the user should know about the success; None: nothing
    """

    request: str
    path: str | None = None
    failure: Failure | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class RecordException:
    """Add a failure to the job's history. follows: its consequence, as text."""

    attempt: int
    failure: Failure
    follows: str


@dataclass(frozen=True, slots=True)
class Alarm:
    """Log and show a condition that a person should check before it becomes a failure. None: the condition is over."""

    text: str | None


@dataclass(frozen=True, slots=True)
class Entered:
    """Log that the job has entered a state, update its history, and notify watchers."""

    state: JobState
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """End the driver: the job is over in this coordinator."""

    state: JobState
    savepoint: str | None
    failure: Failure | None
    parallelism: Mapping[str, int]


Effect = (
    ReadJournal
    | WriteAttempt
    | WriteCheckpoint
    | WriteCommitted
    | WriteStopping
    | WriteFinished
    | RequestSlots
    | ReleaseSlots
    | OpenHost
    | CloseHost
    | Discover
    | DeploySlots
    | Send
    | SendAll
    | Describe
    | Commit
    | Fence
    | Sweep
    | WriteSavepoint
    | Prune
    | Answer
    | RecordException
    | Alarm
    | Entered
    | Ended
)


def failure_event(effect: Effect, failure: Failure) -> on.Event | None:
    """Returns the event that replaces the promised one after an effect raised; None if the effect promises none.

    After a decision in the journal the machine waits for a promised event without a time limit, so an effect that
    raises must not leave the machine without one. The driver posts the effect's failure event instead, and the attempt
    or the job fails with the cause. The failure of an effect that promises no event is only logged.

    An effect may raise after its event was posted. Then the failure event is ignored, or it fails an attempt that had
    no other problem. Both are safe: a failure event may arrive at any time.
    """
    match effect:
        case ReadJournal() | WriteAttempt() | WriteCheckpoint() | WriteCommitted() | WriteStopping() | WriteFinished():
            return on.JournalFailed(failure)
        case RequestSlots() | DeploySlots() | SendAll():
            return on.SlotFailed(0, failure)
        case Send(index):
            return on.SlotFailed(index, failure)
        case ReleaseSlots():
            # slots that could not be ended do not disturb the next attempt: its slots refuse their connections, and the
            # driver drops their messages
            return on.SlotsReleased()
        case OpenHost():
            return on.ConnectorHostFailed(failure)
        case Describe(epoch):
            return on.DescribeFailed(epoch, failure)
        case Commit(epoch):
            return on.CommitFailed(epoch, failure)
        case Fence(attempt):
            return on.FenceFailed(attempt, failure)
        case WriteSavepoint(manifest):
            return on.SavepointFailed(manifest.epoch, failure)
        case (
            CloseHost() | Discover() | Sweep() | Prune() | Answer() | RecordException() | Alarm() | Entered() | Ended()
        ):
            return None
        case _:
            assert_never(effect)
