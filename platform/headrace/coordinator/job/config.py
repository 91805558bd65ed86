"""A job as its machine is given it, and as people see it. Shapes only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum

from headrace.checkpoint.manifest import Manifest
from headrace.coordinator.job.job_state import JobState
from headrace.execution.plan_facts import Namer, Planner, no_names
from headrace.spec.settings import Checkpoint, ExponentialDelay, Restart


class Beginning(Enum):
    """What ends a job that has never run, beside what ends every job.

    ATTENDED   any failure: somebody waits in front of it
    SUBMITTED  what its connectors refuse as they open: a wrong address is no better later
    RESUMED    nothing: it was accepted a while ago, and what is away comes back
    """

    ATTENDED = "attended"
    SUBMITTED = "submitted"
    RESUMED = "resumed"


@dataclass(frozen=True, slots=True)
class JobConfig:
    """A job as it was accepted.

    savepoint    URL of what it starts from, when its own journal has no checkpoint yet; origin: its manifest
    version      headrace version, for manifests
    resume       begin anew though the journal says that the job has ended
    beginning    which failures before the first attempt end the job
    keeps_time_open   the input's end closes no window
    hand_over    URL of the savepoint that the last epoch fills, where the input's end is a hand-over
    wall_offset_ms   wall clock less the clock that the machine is told, for times that people read
    deploy_timeout_ms   how long slots may take to open and restore
    slots_timeout_ms    how long to wait for slots before that counts as a failure
    cancel_timeout_ms   how long the slots of an ended attempt are waited for, and then its committers
    names        under which names an attempt may leave output open
    left_open    the same of the job that `origin` comes from
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
    names: Namer = no_names
    left_open: Mapping[str, tuple[str, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JobView:
    """How the job stands, for people."""

    state: JobState
    attempt: int
    parallelism: int
    message: str
    alarm: str | None = None
    opened: bool = False
    """Its sources and sinks are open, or an attempt of it was recorded."""
