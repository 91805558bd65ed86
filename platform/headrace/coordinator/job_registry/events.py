"""Events of the job registry: answers to its effects, drivers, users, the coordinator's start and end.

Data only. `job` is a job's id in all of them, `request` the id of a trigger that a user polls.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.coordinator.job.config import STOP_TIMEOUT_MS
from headrace.coordinator.job.journaling import EndState
from headrace.rpc.messages import Failure


@dataclass(frozen=True, slots=True)
class End:
    """The end of a job. `savepoint`: URL of the savepoint that a stop returned."""

    state: EndState
    savepoint: str | None = None
    failure: Failure | None = None


@dataclass(frozen=True, slots=True)
class Stop:
    """A requested stop. `directory`: the user's folder for its savepoint; None: without one. within_ms: its bound."""

    request: str
    directory: str | None
    drain: bool
    within_ms: int = STOP_TIMEOUT_MS


@dataclass(frozen=True, slots=True)
class ReadJob:
    """A job as read from the job store. `end` None: it has no result."""

    job: str
    name: str
    end: End | None


@dataclass(frozen=True, slots=True)
class JobsRead:
    """The coordinator has read its job store. Arrives once, before all other events except Closing."""

    jobs: tuple[ReadJob, ...]


@dataclass(frozen=True, slots=True)
class Closing:
    """The coordinator ends."""


# ---- submitting ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SubmitAsked:
    """A user submits a pipeline of that name; the job's id is new. Raises JobConflictError if the name is taken."""

    job: str
    name: str
    allow_duplicate: bool


@dataclass(frozen=True, slots=True)
class SubmitKept:
    """The job store has the submission."""

    job: str


@dataclass(frozen=True, slots=True)
class SubmitFailed:
    """The submission failed. `stored`: its write was begun, so it may be on disk."""

    job: str
    stored: bool


@dataclass(frozen=True, slots=True)
class Discarded:
    """Nothing of the failed submission is on disk."""

    job: str


@dataclass(frozen=True, slots=True)
class NotDiscarded:
    """The job store could not delete the failed submission."""

    job: str


# ---- tries and drivers -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TryReady:
    """Plans and origin are read: the job can be driven."""

    job: str
    number: int


@dataclass(frozen=True, slots=True)
class TryAway:
    """The job's storage is unreachable; another try may succeed."""

    job: str
    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class TryHopeless:
    """This coordinator cannot continue the job; another try cannot succeed."""

    job: str
    number: int
    reason: str


@dataclass(frozen=True, slots=True)
class DriveFailed:
    """The driver could not be started."""

    job: str
    reason: str


@dataclass(frozen=True, slots=True)
class MachineFailed:
    """The job's state machine raised: its driver is over, and has answered every request of users.

    again   the job's restart strategy allows another machine
    """

    job: str
    failure: Failure
    again: bool


@dataclass(frozen=True, slots=True)
class DriverEnded:
    """The job's driver is over, with an end; None: it has left the job (suspended, or replaced by another
    coordinator).

    again   it was replaced by a coordinator of an earlier term, which may not go on: this one does
    """

    job: str
    end: End | None
    again: bool = False


@dataclass(frozen=True, slots=True)
class Answered:
    """The driver answers a user's request."""

    job: str
    request: str
    path: str | None = None
    failure: Failure | None = None
    note: str | None = None


# ---- users -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StopAsked:
    """A user requests a stop. Raises JobConflictError if the job has no driver and waits for none."""

    job: str
    stop: Stop


@dataclass(frozen=True, slots=True)
class StopDue:
    """The time of a requested stop is over. path, note: the answer if the job still has no driver, and ends without
    one."""

    job: str
    request: str
    path: str | None
    note: str


@dataclass(frozen=True, slots=True)
class CancelAsked:
    """A user requests a cancel. Raises JobConflictError if the job has another end already, or belongs to another
    coordinator."""

    job: str
    request: str


# ---- the job store ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class EndKept:
    """The job's end is durable. `forgotten`: ended jobs that the store has deleted with it."""

    job: str
    forgotten: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class EndNotKept:
    """The write of the job's end failed. The end may be on disk nevertheless."""

    job: str
    failure: Failure


@dataclass(frozen=True, slots=True)
class EndWithdrawn:
    """No end of the job is on disk."""

    job: str


@dataclass(frozen=True, slots=True)
class EndNotWithdrawn:
    """It is unknown whether an end of the job is on disk."""

    job: str
    failure: Failure


Event = (
    JobsRead
    | Closing
    | SubmitAsked
    | SubmitKept
    | SubmitFailed
    | Discarded
    | NotDiscarded
    | TryReady
    | TryAway
    | TryHopeless
    | DriveFailed
    | MachineFailed
    | DriverEnded
    | Answered
    | StopAsked
    | StopDue
    | CancelAsked
    | EndKept
    | EndNotKept
    | EndWithdrawn
    | EndNotWithdrawn
)
