"""Effects of the job machine: orders to its driver. Shapes only.

The driver executes effects in order; each one that can fail or takes time is answered by an event.
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
    """Read the journal again, after all pending writes -> JournalRead(ticket), JournalFailed, Replaced."""

    ticket: int


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
    """The user requested a stop."""

    ticket: int
    savepoint: str | None
    drain: bool


@dataclass(frozen=True, slots=True)
class WriteFinished:
    """The job has ended."""

    ticket: int
    state: JobState
    savepoint: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True)
class RequestSlots:
    """-> SlotsGranted, once there are `count` free slots."""

    attempt: int
    count: int


@dataclass(frozen=True, slots=True)
class ReleaseSlots:
    """Withdraw the request and end the attempt's slots: cancelled, then killed if they do not leave ->
    SlotsReleased.
    """


@dataclass(frozen=True, slots=True)
class OpenHost:
    """Start the connector host unless it runs, and open the job's enumerators -> HostOpened, HostFailed.

    foreign   `known` comes from a savepoint of another job: the stops of its splits are resolved again
    """

    known: Splits
    foreign: bool = False


@dataclass(frozen=True, slots=True)
class CloseHost:
    """End the connector host."""


@dataclass(frozen=True, slots=True)
class Discover:
    """Ask a source's enumerator for new splits -> SplitsFound. Never fails the job: the machine asks again."""

    source: str


@dataclass(frozen=True, slots=True)
class DeploySlots:
    """Send every slot of the attempt its deployment -> one SlotDeployed each.

    restore: the manifest to restore: an own checkpoint, or (own=False) the job's origin.
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
    """Check whether the epoch's output can be committed, and how -> Described, DescribeFailed."""

    epoch: int
    committables: tuple[CommittableDocument, ...]


@dataclass(frozen=True, slots=True)
class Commit:
    """Make the epoch's output visible -> Committed, CommitFailed. Idempotent."""

    epoch: int
    committables: tuple[CommittableDocument, ...]


@dataclass(frozen=True, slots=True)
class Fence:
    """End open transactions under these names, by sink, and fence their writers -> Fenced, FenceFailed."""

    attempt: int
    names: Mapping[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Sweep:
    """End transactions that zombie writers of earlier attempts began. No answer: the machine asks again."""

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
    """A user's request is done, with a path (savepoint, stop) or without one; or it failed."""

    request: str
    path: str | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class RecordException:
    """Add a failure to the job's history, with its consequence."""

    attempt: int
    failure: Failure
    follows: str


@dataclass(frozen=True, slots=True)
class Alarm:
    """A condition that a person should look at before it becomes a failure: logged and shown. None: it is over."""

    text: str | None


@dataclass(frozen=True, slots=True)
class Entered:
    """The job entered a state: for the log, the history and watchers."""

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
