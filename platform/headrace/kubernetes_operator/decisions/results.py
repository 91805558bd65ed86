"""The results of steps, as the next round sees them. They are lost when the operator dies: steps are repeated then."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Submitted:
    """The cluster accepted a job. key: of the submission."""

    key: str
    job_id: str


@dataclass(frozen=True, slots=True)
class Refused:
    """A submission cannot succeed as it is. reason: one word in CamelCase."""

    key: str
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class StopFailed:
    """A job could not be stopped, and goes on."""

    job_id: str
    message: str


@dataclass(frozen=True, slots=True)
class Triggered:
    """A savepoint has begun. trigger: its name."""

    job_id: str
    trigger: str


@dataclass(frozen=True, slots=True)
class SavepointRefused:
    """A savepoint could not begin."""

    message: str


@dataclass(frozen=True, slots=True)
class Disposed:
    """The files of a savepoint are deleted."""


@dataclass(frozen=True, slots=True)
class Delayed:
    """A step did not succeed yet, and is repeated. message: why."""

    message: str


Result = Submitted | Refused | StopFailed | Triggered | SavepointRefused | Disposed | Delayed
