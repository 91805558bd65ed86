"""The conditions and the shown state of a HeadraceJob, from its status and a view. Pure.

Ready      the job runs, or is where its spec wants it
Upgrading  another job replaces the previous one
Degraded   a person should act: reason and message have the cluster's words
"""

from __future__ import annotations

from typing import assert_never

from headrace.kubernetes_operator.decisions.job_machine import advance
from headrace.kubernetes_operator.decisions.job_steps import noted
from headrace.kubernetes_operator.decisions.job_view import JobFacts, JobMissing, JobUnknown, JobView, NoDesire
from headrace.kubernetes_operator.decisions.steps import Delayed, StopFailed
from headrace.kubernetes_operator.resources.conditions import DEGRADED, READY, UPGRADING, Condition, condition, dated
from headrace.kubernetes_operator.resources.job import JobResourceStatus

_FINE = ("AsDescribed", "")


def next_status(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    """The status to record next: its phase, what snapshots brought, the conditions."""
    after = noted(advance(status, view), view)
    if _says_no_more(status, after, view):
        conditions = status.conditions
    else:
        conditions = (_ready(after, view), _upgrading(after), _degraded(after, view))
    generation = view.identity.generation
    return after.model_copy(
        update={
            "state": _state(after, view),
            "observed_generation": generation,
            "conditions": dated(conditions, status.conditions, now=view.now.text, generation=generation),
        }
    )


def _says_no_more(before: JobResourceStatus, after: JobResourceStatus, view: JobView) -> bool:
    """Whether the job has ended before: it is not looked at any more, and what was said of its end stays."""
    has_ended = before.phase == after.phase == "Ended" and bool(before.conditions)
    return has_ended and not isinstance(view.desired, NoDesire) and before.refusal == after.refusal


def _state(status: JobResourceStatus, view: JobView) -> str:
    """The word that kubectl shows."""
    match status.phase:
        case "Stopped" if view.spec is not None and view.spec.state == "suspended":
            return "SUSPENDED"
        case "Stopped":
            return "INVALID" if status.refusal is not None or isinstance(view.desired, NoDesire) else "STOPPED"
        case "Submitting":
            return "SUBMITTING"
        case "Starting" | "Running" | "Stopping" | "Ended":
            if status.refusal is not None and status.refusal.reason == "RollbackFailed" and status.phase == "Ended":
                return "FAILED"
            if isinstance(view.job, JobFacts) and view.job.job_id == status.job_id:
                return view.job.state
            return "UNKNOWN" if isinstance(view.job, JobUnknown) else status.state
        case _:
            assert_never(status.phase)


def _ready(status: JobResourceStatus, view: JobView) -> Condition:
    state = _state(status, view)
    if status.phase == "Running" and state == "RUNNING":
        return condition(READY, "Running", is_so=True)
    if status.phase == "Ended" and state == "FINISHED":
        return condition(READY, "Finished", "the job has read its sources to their end", is_so=True)
    if state == "SUSPENDED":
        return condition(READY, "Suspended", status.origin or "", is_so=False)
    reason, message = _trouble(status, view)
    if (reason, message) == _FINE:
        reason, message = _waits(status, view)
    return condition(READY, reason, message, is_so=False)


def _waits(status: JobResourceStatus, view: JobView) -> tuple[str, str]:
    """The reason why a job is not ready."""
    if isinstance(view.job, JobFacts) and view.job.message:
        return status.phase, view.job.message
    if status.phase == "Submitting" and not view.cluster.leads:
        # a cluster that was just applied needs time to start
        return "NoLeader", "no coordinator leads the cluster yet"
    return status.phase, ""


def _upgrading(status: JobResourceStatus) -> Condition:
    if status.is_rolling_back:
        return condition(UPGRADING, "RollingBack", "the last stable spec is started again", is_so=True)
    if status.stop is not None and status.stop.reason == "upgrade":
        return condition(UPGRADING, "Stopping", "the job before is being stopped", is_so=True)
    is_another = status.phase in {"Submitting", "Starting"} and status.stable_spec is not None
    if is_another and status.target is not None and status.target != status.stable_spec:
        return condition(UPGRADING, status.phase, is_so=True)
    return condition(UPGRADING, "NoUpgrade", is_so=False)


def _degraded(status: JobResourceStatus, view: JobView) -> Condition:
    reason, message = _trouble(status, view)
    return condition(DEGRADED, reason, message, is_so=(reason, message) != _FINE)


def _trouble(status: JobResourceStatus, view: JobView) -> tuple[str, str]:
    """Reason and message of the first thing that is wrong, the nearest to the user first."""
    if isinstance(view.desired, NoDesire):
        return view.desired.reason, view.desired.message
    if status.refusal is not None:
        is_upgrade = status.stable_spec is not None and status.refusal.reason != "RollbackFailed"
        prefix = f"{status.refusal.reason}: " if is_upgrade else ""
        return "UpgradeFailed" if is_upgrade else status.refusal.reason, f"{prefix}{status.refusal.message}"
    return _trouble_of_job(status, view) or _trouble_of_cluster(status, view) or _FINE


def _trouble_of_job(status: JobResourceStatus, view: JobView) -> tuple[str, str] | None:
    if isinstance(view.result, StopFailed) and status.phase == "Stopping":
        return "StopFailed", view.result.message
    has_job = status.phase in {"Starting", "Running", "Stopping", "Ended"}
    match view.job:
        case JobFacts(state="FAILED") as job if status.phase == "Ended":
            return "JobFailed", job.failure or "no reason is known"
        case JobFacts() as job if has_job and job.lacks:
            return "WorkersDoNotRun", job.lacks
        case JobFacts() as job if has_job and job.alarm:
            return "Alarm", job.alarm
        case JobFacts(state="RESTARTING") as job if has_job:
            return "Restarting", job.failure or job.message
        case JobMissing() if has_job:
            start = status.origin or "the beginning"
            return "JobMissing", f"the cluster does not know job {status.job_id}; a restartNonce starts it from {start}"
        case JobFacts() | JobMissing() | JobUnknown() | None:
            return None
        case _:
            assert_never(view.job)


def _trouble_of_cluster(status: JobResourceStatus, view: JobView) -> tuple[str, str] | None:
    if status.phase in {"Stopped", "Ended"}:
        return None
    is_own = view.spec is not None and view.spec.own_cluster is not None
    if not view.cluster.is_there and (view.cluster.trouble or not is_own):
        return "NoCluster", view.cluster.trouble or "there is no cluster of that name in this namespace"
    if view.cluster.trouble:
        return "PodsDoNotRun", view.cluster.trouble
    if not view.cluster.leads and status.phase != "Submitting":
        return "NoLeader", "no coordinator leads the cluster"
    if isinstance(view.job, JobUnknown):
        return "ClusterUnreachable", view.job.message
    if isinstance(view.result, Delayed):
        return "Delayed", view.result.message
    return None
