"""Effects of the job registry, executed in order. Data only. `-> X, Y`: one of these events answers the effect."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.coordinator.job_registry.events import End, Stop
from headrace.rpc.messages import Failure


@dataclass(frozen=True, slots=True)
class Try:
    """After the delay, read the plans and the origin that a driver of the job needs -> TryReady, TryAway, TryHopeless,
    with this number."""

    job: str
    number: int
    delay_s: float


@dataclass(frozen=True, slots=True)
class AbandonTry:
    """Cancel the job's try, which is not needed any more. Its answer may still arrive."""

    job: str


@dataclass(frozen=True, slots=True)
class Drive:
    """Start a driver with the result of the last try, and post these stops to it -> DriverEnded, MachineFailed,
    DriveFailed."""

    job: str
    stops: tuple[Stop, ...] = ()


@dataclass(frozen=True, slots=True)
class PostStop:
    """Request a stop from the job's driver -> Answered."""

    job: str
    stop: Stop


@dataclass(frozen=True, slots=True)
class WatchStop:
    """Begin the time of a stop that waits for a driver -> StopDue, when the time is over."""

    job: str
    stop: Stop


@dataclass(frozen=True, slots=True)
class PostCancel:
    """Request a cancel from the job's driver -> Answered."""

    job: str
    request: str


@dataclass(frozen=True, slots=True)
class Suspend:
    """Ask the job's driver to end without an end of the job, which the next coordinator continues -> DriverEnded,
    MachineFailed."""

    job: str


@dataclass(frozen=True, slots=True)
class KeepEnd:
    """After the delay, write the job's end to the job store -> EndKept, EndNotKept."""

    job: str
    end: End
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class WithdrawEnd:
    """After the delay, delete the job's end from the job store if it is there -> EndWithdrawn, EndNotWithdrawn."""

    job: str
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Discard:
    """After the delay, delete the submission from the job store if it is there -> Discarded, NotDiscarded."""

    job: str
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """Complete a user's request: with a path or nothing, or with a failure. note: what the user should know about the
    success."""

    request: str
    path: str | None = None
    failure: Failure | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Progress:
    """Add a text to a request that describes what it waits for."""

    request: str
    text: str


@dataclass(frozen=True, slots=True)
class Forget:
    """Remove an ended job that the job store has deleted."""

    job: str


Effect = (
    Try
    | AbandonTry
    | Drive
    | PostStop
    | WatchStop
    | PostCancel
    | Suspend
    | KeepEnd
    | WithdrawEnd
    | Discard
    | Answer
    | Progress
    | Forget
)
