"""What a job's machine wants done: orders for its driver, in order. Shapes only.

The driver executes effects in the order given; each that can fail or takes time comes back as an event.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from headrace.checkpoint.manifest import CommittableDocument, Manifest, OutputTotal, StateHandle
from headrace.coordinator.job.events import Splits
from headrace.coordinator.job.job_state import JobState
from headrace.rpc.messages import Failure, ToSlot


@dataclass(frozen=True, slots=True)
class ReadJournal:
    """Read it anew, after all that was asked to be written -> JournalRead, JournalFailed, Replaced."""


@dataclass(frozen=True, slots=True)
class WriteAttempt:
    """-> RecordWritten(ticket), JournalFailed, Replaced; so for all records."""

    ticket: int
    attempt: int
    restored_epoch: int | None
    savepoint: str | None
    parallelism: int
    plan_hash: str
    splits: Splits
    transactions: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    output: Mapping[str, OutputTotal] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WriteCheckpoint:
    """The epoch is complete. `savepoint`: URL of the folder that it also fills, or None; took_ms: since its trigger."""

    ticket: int
    manifest: Manifest
    savepoint: str | None
    savepoint_states: tuple[StateHandle, ...]
    took_ms: int


@dataclass(frozen=True, slots=True)
class WriteCommitted:
    """The epoch is committed."""

    ticket: int
    epoch: int


@dataclass(frozen=True, slots=True)
class WriteStopping:
    """The user asked to stop."""

    ticket: int
    savepoint: str | None
    drain: bool


@dataclass(frozen=True, slots=True)
class WriteFinished:
    """The end."""

    ticket: int
    state: JobState
    savepoint: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RequestSlots:
    """-> SlotsGranted, once there are as many."""

    attempt: int
    count: int


@dataclass(frozen=True, slots=True)
class ReleaseSlots:
    """Forget the request and end the attempt's slots: told to cancel, killed if they do not leave -> SlotsReleased."""


@dataclass(frozen=True, slots=True)
class OpenHost:
    """Start the connector host if there is none, and open the job's enumerators -> HostOpened, HostFailed.

    foreign   `known` comes from a savepoint of another job: where sources stop is resolved anew
    """

    known: Splits
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class CloseHost:
    """End the connector host."""


@dataclass(frozen=True, slots=True)
class Discover:
    """Ask a source's enumerator for new splits -> SplitsFound (never fails the job: it is asked again)."""

    source: str


@dataclass(frozen=True, slots=True)
class DeploySlots:
    """Send every slot of the attempt its deployment -> SlotDeployed each.

    restore: the manifest to restore from: an own checkpoint, or (own=False) what the job was submitted with.
    """

    attempt: int
    parallelism: int
    restore: Manifest | None
    own: bool


@dataclass(frozen=True, slots=True)
class Tell:
    """Send one slot of the attempt a message."""

    index: int
    told: ToSlot


@dataclass(frozen=True, slots=True)
class TellAll:
    """Send every slot of the attempt a message."""

    told: ToSlot


@dataclass(frozen=True, slots=True)
class Describe:
    """Look whether the epoch's output can be committed, and how -> Described, DescribeFailed."""

    epoch: int
    committables: tuple[CommittableDocument, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Make the epoch's output visible -> Committed, CommitFailed. Repeating it changes nothing."""

    epoch: int
    committables: tuple[CommittableDocument, ...]


@dataclass(frozen=True, slots=True)
class Fence:
    """End what is open under these names, by sink, and shut out whoever holds one -> Fenced, FenceFailed."""

    attempt: int
    names: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Sweep:
    """End what writers of earlier attempts that woke up late have begun. No answer: it is asked for again."""

    attempt: int


@dataclass(frozen=True, slots=True)
class WriteSavepoint:
    """Write the savepoint's own manifest, the last of its files -> SavepointWritten, SavepointFailed."""

    manifest: Manifest
    folder: str


@dataclass(frozen=True, slots=True)
class Prune:
    """Delete checkpoints beyond those retained, and files that nothing names."""

    retained: int


@dataclass(frozen=True, slots=True)
class Answer:
    """A user's request is done: a path (savepoint, stop) or nothing to say; or it failed."""

    request: str
    path: str | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class RecordException:
    """Keep a failure in the job's history, with what follows it."""

    attempt: int
    failure: Failure
    follows: str


@dataclass(frozen=True, slots=True)
class Alarm:
    """Something needs a person's eye before it becomes a failure: for the log and the job's status. None: no more."""

    text: str | None


@dataclass(frozen=True, slots=True)
class Entered:
    """The job is in another state: for the log, the history and those who wait."""

    state: JobState
    reason: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The job is over in this coordinator."""

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
    | Tell
    | TellAll
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
