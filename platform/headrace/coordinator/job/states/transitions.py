"""The transitions of the job machine: each names the next state and carries its arguments. Data only.

    state.on(event) ─> Stay                the state does not change
                    ─> ToRestarting(..)    `factory` creates the next state, `machine` enters it

A state returns a transition and imports no other state. `job_state.TRANSITIONS` holds the allowed transitions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Final

from headrace.coordinator.job.attempt import Attempt
from headrace.coordinator.job.job_state import JobState
from headrace.rpc.messages import Failure


@dataclass(frozen=True, slots=True)
class Stay:
    """The state does not change."""


STAY: Final = Stay()


@dataclass(frozen=True, slots=True)
class ToScheduling:
    """An attempt is to be prepared."""

    name: ClassVar[JobState] = JobState.SCHEDULING


@dataclass(frozen=True, slots=True)
class ToDeploying:
    """The attempt's record is written, and transactions that earlier attempts left open are fenced."""

    name: ClassVar[JobState] = JobState.DEPLOYING


@dataclass(frozen=True, slots=True)
class ToRunning:
    """Every slot is deployed. `attempt`: the object that the live states share and change."""

    name: ClassVar[JobState] = JobState.RUNNING
    attempt: Attempt


@dataclass(frozen=True, slots=True)
class ToStopping:
    """A stop was requested. `ticket`: of the record that an epoch in flight waits for, 0: none."""

    name: ClassVar[JobState] = JobState.STOPPING
    attempt: Attempt
    ticket: int = 0


@dataclass(frozen=True, slots=True)
class ToRescaling:
    """A rescale was requested. `ticket`: of the record that an epoch in flight waits for, 0: none."""

    name: ClassVar[JobState] = JobState.RESCALING
    attempt: Attempt
    parallelism: int
    ticket: int = 0


@dataclass(frozen=True, slots=True)
class ToRestarting:
    """The attempt failed; the next one begins at `until_ms`."""

    name: ClassVar[JobState] = JobState.RESTARTING
    failure: Failure
    until_ms: int


@dataclass(frozen=True, slots=True)
class ToCancelling:
    """A cancel was requested. within_ms: as in `CancelAsked`."""

    name: ClassVar[JobState] = JobState.CANCELLING
    request: str
    within_ms: int | None = None


@dataclass(frozen=True, slots=True)
class ToEndingEarly:
    """A stop takes no last checkpoint. why: the reason, as a part of a sentence."""

    name: ClassVar[JobState] = JobState.CANCELLING
    why: str


@dataclass(frozen=True, slots=True)
class ToFailing:
    """No restart follows this failure."""

    name: ClassVar[JobState] = JobState.FAILING
    failure: Failure


@dataclass(frozen=True, slots=True)
class ToSuspended:
    """The coordinator leaves the job, or was replaced."""

    name: ClassVar[JobState] = JobState.SUSPENDED
    reason: str


@dataclass(frozen=True, slots=True)
class ToFinished:
    """The successful end. `savepoint`: URL of the folder of the last epoch's savepoint; None: none."""

    name: ClassVar[JobState] = JobState.FINISHED
    savepoint: str | None


@dataclass(frozen=True, slots=True)
class ToCanceled:
    """The requested end. `requests`: the cancels that are answered with it."""

    name: ClassVar[JobState] = JobState.CANCELED
    requests: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ToFailed:
    """The end by a failure. `requests`: the cancels that are answered with it."""

    name: ClassVar[JobState] = JobState.FAILED
    failure: Failure
    requests: tuple[str, ...] = ()


Transition = (
    ToScheduling
    | ToDeploying
    | ToRunning
    | ToStopping
    | ToRescaling
    | ToRestarting
    | ToCancelling
    | ToEndingEarly
    | ToFailing
    | ToSuspended
    | ToFinished
    | ToCanceled
    | ToFailed
)
"""One for every state but CREATED, the first one; CANCELLING has two."""

Next = Stay | Transition
"""The result of a state for an event."""
