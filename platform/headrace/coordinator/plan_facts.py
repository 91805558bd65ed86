"""What a job's machine needs to know of its plan at one parallelism. Shapes only; the driver plans."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum

from headrace.checkpoint.manifest import Manifest
from headrace.coordinator.job_state import JobState
from headrace.spec.settings import Checkpoint, ExponentialDelay, Restart


@dataclass(frozen=True, slots=True)
class PlanFacts:
    """A physical plan, as far as it matters for control.

    slots         processes that it takes: the greatest parallelism of a task
    sources       source -> subtasks
    nodes         node -> what it is (`source`, verb of a step, `sink`)
    parallelism   node -> subtasks
    timed         sources with event time; idle: those of them whose partitions may be idle
    drift         source -> `max_drift` in ms, where it has one
    commit_within_ms   how long prepared output waits to be committed before the outside gives it up; None: for ever
    """

    plan_hash: str
    slots: int
    max_parallelism: int
    sources: Mapping[str, int]
    nodes: Mapping[str, str]
    parallelism: Mapping[str, int]
    timed: frozenset[str] = frozenset()
    idle: frozenset[str] = frozenset()
    drift: Mapping[str, int] = field(default_factory=dict)
    commit_within_ms: int | None = None


Planner = Callable[[int], PlanFacts]
"""The facts at a parallelism. Pure."""
Namer = Callable[[int, int], Mapping[str, tuple[str, ...]]]
"""Sink -> the names under which attempt a at parallelism p may leave output open: `namer(p, a)`. Pure."""


def no_names(parallelism: int, attempt: int) -> Mapping[str, tuple[str, ...]]:
    """The namer of a job without such sinks."""
    return {}


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
