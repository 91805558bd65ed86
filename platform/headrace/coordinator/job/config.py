"""A job's configuration for its machine, and its state as users see it. Data only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from headrace.checkpoint.manifest import Manifest
from headrace.coordinator.job.job_state import JobState
from headrace.execution.plan_facts import Namer, Planner, no_names
from headrace.spec.settings import Checkpoint, ExponentialDelay, Restart

STOP_TIMEOUT_MS = 60_000
"""The bound of a stop that names none, in ms."""


class Beginning(Enum):
    """The failures before the first attempt that end the job, besides those that always do.

    ATTENDED    any failure, because a user is waiting at the terminal
    SUBMITTED   a connector's refusal to open, because a retry does not correct a wrong address
    RESUMED     none: the job was accepted earlier, and a system that is unreachable now is expected to return
    """

    ATTENDED = "attended"
    SUBMITTED = "submitted"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class JobConfig:
    """A job as it was accepted.

    savepoint           URL of the job's origin, used until its own journal has a checkpoint; origin: its manifest
    version             headrace version, for manifests
    resume              start again although the journal contains the job's end
    beginning           the failures before the first attempt that end the job
    keeps_time_open     the end of the input closes no window
    hand_over           URL of the savepoint of the last epoch, if another job is to continue from the end of the input
    wall_offset_ms      wall clock minus the machine's clock, for times that users read
    deploy_timeout_ms   how long slots may take to open and restore
    slots_timeout_ms    how long to wait for slots before that counts as a failure
    cancel_timeout_ms   how long to wait for the slots of an ended attempt, and then for its committers
    stop_timeout_ms     the bound of a stop that names none
    names               (parallelism, attempt) -> sink -> the transaction names that the attempt may use
    accepted_topics     topics of the restored state that may be other ones now: they begin as new ones
    left_open           sink -> the transaction names of the job that wrote `origin`, which may have left output open
    """

    job: str
    name: str
    parallelism: int
    plan: Planner
    version: str
    checkpoint: Checkpoint = field(default_factory=Checkpoint)
    restart: Restart = field(default_factory=ExponentialDelay)
    savepoint: str | None = None
    origin: Manifest | None = None
    resume: bool = False
    beginning: Beginning = Beginning.SUBMITTED
    keeps_time_open: bool = False
    hand_over: str | None = None
    wall_offset_ms: int = 0
    deploy_timeout_ms: int = 180_000
    slots_timeout_ms: int = 300_000
    cancel_timeout_ms: int = 45_000
    stop_timeout_ms: int = STOP_TIMEOUT_MS
    names: Namer = no_names
    left_open: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    accepted_topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class JobView:
    """The state of the job, as users see it."""

    state: JobState
    attempt: int
    parallelism: int
    message: str
    alarm: str | None = None
    opened: bool = False
    """Whether its sources and sinks are open, or an attempt of it was recorded."""
