"""An observation of a HeadraceJob and its surroundings. Data only. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace.kubernetes_operator.decisions.steps import Result
from headrace.kubernetes_operator.resources.job import JobSpec, RunSpec
from headrace.kubernetes_operator.resources.snapshot_resource import SnapshotPhase

FINAL_STATES = frozenset({"FINISHED", "CANCELED", "FAILED"})
"""States of a job that has ended."""


@dataclass(frozen=True, slots=True)
class Identity:
    """The object. generation: number of its spec; is_kept: whether it has our finalizer."""

    name: str
    namespace: str
    uid: str
    generation: int
    is_deleted: bool
    is_kept: bool


@dataclass(frozen=True, slots=True)
class Moment:
    """Now, as seconds since the epoch and as the API server writes times."""

    seconds: float
    text: str


@dataclass(frozen=True, slots=True)
class ClusterFacts:
    """The cluster that a job is in.

    is_there     anything of it: a Deployment, or a Lease with a leader's address
    deployed     whether there is a Deployment
    leads        whether a coordinator has published its address
    applied      digest of the spec that the operator has applied; empty: none
    trouble      why its pods do not run; empty: no reason is known
    renewal_due  whether its certificate is to be issued anew, as an apply does
    """

    is_there: bool
    deployed: bool
    leads: bool
    applied: str = ""
    trouble: str = ""
    renewal_due: bool = False


@dataclass(frozen=True, slots=True)
class JobFacts:
    """A job as its coordinator shows it.

    origin      path of its savepoint or last checkpoint
    savepoint   of its stop
    message     what it waits for
    alarm       what a person should check before it fails
    lacks       why there are too few workers for it
    """

    job_id: str
    state: str
    origin: str | None = None
    savepoint: str | None = None
    failure: str = ""
    message: str = ""
    alarm: str = ""
    lacks: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether no state follows."""
        return self.state in FINAL_STATES


@dataclass(frozen=True, slots=True)
class JobMissing:
    """The cluster answers, and does not know the job."""


@dataclass(frozen=True, slots=True)
class JobUnknown:
    """The cluster does not answer."""

    message: str


@dataclass(frozen=True, slots=True)
class NoDesire:
    """The spec cannot be used. reason: one word in CamelCase."""

    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class SnapshotFacts:
    """A HeadraceSnapshot that was made for the job. created_s: seconds since the epoch."""

    name: str
    created_s: float
    phase: SnapshotPhase
    location: str | None = None


@dataclass(frozen=True, slots=True)
class JobView:
    """All inputs of a decision except for the status.

    spec      None: it cannot be read, and `desired` holds the reason
    desired   the spec that should run, with the text of the pipeline
    cluster   of the job that runs, else of the one that should
    job       the job of the status; None: there is none
    result    of the last step, if this operator took it
    """

    identity: Identity
    spec: JobSpec | None
    desired: RunSpec | NoDesire
    cluster: ClusterFacts
    job: JobFacts | JobMissing | JobUnknown | None
    now: Moment
    result: Result | None = None
    snapshots: Sequence[SnapshotFacts] = ()
