"""The phases of a HeadraceJob: from a status and a view to the next status. Pure.

    Stopped ───(1)───> Submitting ── accepted ──> Starting ───(3)───> Running ────── it ended ─────> Ended
      ^  ^                │   ^                     │  │                │                              │
      │  └──────(2)───────┘   └────────(4)──────────┘  │(5)             │(5)                           │(1)
      │                                                v                │                              v
      └────────────────── the job has ended ──────── Stopping <─────────┘                          Submitting

    (1) another spec is desired, and was not refused    (4) refused, or failed before it ran: the stable spec is
    (2) refused, and no spec has ever run                   submitted, from the same origin
    (3) RUNNING, or the job has a checkpoint            (5) another spec is desired; suspended; deleted

A phase is recorded before its step is taken (`job_steps`), and each step may be repeated. So an operator that is killed
anywhere, or a second one, continues from the status alone. A submission has a key with its number, so the cluster
accepts it once. A stop is requested until the job has ended; the job then names the path that the next one starts
from. That path (`origin`) stays until a later job has state of its own, so there is always a way back.

A refused spec is remembered and not tried again until the spec changes. Without a stable spec to return to it is tried
again every `REFUSED_SECONDS`, because the cause may be external: a missing topic, a name in use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, assert_never

from headrace.kubernetes_operator.decisions.job_view import JobFacts, JobMissing, JobUnknown, JobView
from headrace.kubernetes_operator.decisions.steps import Refused, StopFailed, Submitted
from headrace.kubernetes_operator.resources.conditions import seconds_between
from headrace.kubernetes_operator.resources.job import (
    JobResourceStatus,
    Refusal,
    RunSpec,
    Stop,
    StopReason,
    StopWay,
    UpgradeMode,
)

REFUSED_SECONDS = 30.0


def advance(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    """The next status; the same one if nothing follows from the view. Conditions are not touched."""
    return _next(_without_stale_refusal(status, view), view)


def _next(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    match status.phase:
        case "Stopped":
            return _stopped(status, view)
        case "Submitting":
            return _submitting(status, view)
        case "Starting":
            return _starting(status, view)
        case "Running":
            return _running(status, view)
        case "Stopping":
            return _stopping(status, view)
        case "Ended":
            return _ended(status, view)
        case _:
            assert_never(status.phase)


def submission_key(status: JobResourceStatus, view: JobView) -> str:
    """The key of the submission under way: of this object, of its number."""
    return f"{view.identity.uid}/{status.submissions}"


# ---- phases without a job ----------------------------------------------------------------------------------------


def _stopped(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    desired = _desired(view)
    if desired is None or view.spec is None:
        return status
    if _was_refused(status, desired) and status.stable_spec is not None:
        return _submission(status, status.stable_spec, view)
    if not _may_try(status, desired, view):
        return status
    is_first = status.job_id is None and status.origin is None
    return _submission(_changed(status, origin=view.spec.initial_savepoint) if is_first else status, desired, view)


def _ended(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    desired = _desired(view)
    if desired is None or _is_same(status, desired) or not _may_try(status, desired, view):
        return status
    return _submission(status, desired, view)


def _submitting(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    match view.result:
        case Submitted(key, job_id) if key == submission_key(status, view):
            return _changed(status, phase="Starting", job_id=job_id, previous_job_id=status.job_id)
        case Refused(key, reason, message) if key == submission_key(status, view):
            return _refused(status, view, reason, message)
        case _:
            pass
    if view.identity.is_deleted and not view.cluster.is_there:
        # nobody can have accepted the submission
        return _changed(status, phase="Stopped")
    return status


def _submission(status: JobResourceStatus, target: RunSpec, view: JobView) -> JobResourceStatus:
    # a job that is resumed as it was keeps its state in every mode
    is_another = status.job_id is not None and not _is_same(status, target)
    return _changed(
        status,
        phase="Submitting",
        target=target,
        submissions=status.submissions + 1,
        starts_empty=is_another and _mode(view) == "stateless" and not status.is_rolling_back,
    )


# ---- phases with a job -------------------------------------------------------------------------------------------


def _starting(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    match view.job:
        case JobFacts(state="FAILED", origin=None) as job:
            return _refused(status, view, "FailedBeforeItRan", job.failure or "no reason is known")
        case JobFacts() as job if job.state in {"RUNNING", "FINISHED"} or job.origin is not None:
            return _ran(status, view)
        case JobFacts(state="CANCELED"):
            return _changed(status, phase="Ended")
        case JobMissing():
            return _changed(status, phase="Ended")
        case JobFacts() | JobUnknown() | None:
            return _with_stop(status, view)
        case _:
            assert_never(view.job)


def _ran(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    return _changed(
        status,
        phase="Running",
        stable_spec=status.target,
        running_since=view.now.text,
        # a job that began anew and has run has nothing to do any more with the state of the one before
        origin=None if status.starts_empty else status.origin,
        starts_empty=False,
        is_rolling_back=False,
    )


def _running(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    match view.job:
        case JobFacts() as job if job.has_ended:
            return _changed(status, phase="Ended", **_left(status, job))
        case JobMissing():
            return _changed(status, phase="Ended")
        case JobFacts() | JobUnknown() | None:
            return _with_stop(status, view)
        case _:
            assert_never(view.job)


def _stopping(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    assert status.stop is not None, "the phase has one"
    match view.job:
        case JobFacts() as job if job.has_ended:
            return _changed(status, phase="Stopped", stop=None, **_left(status, job))
        case JobMissing():
            return _changed(status, phase="Stopped", stop=None)
        case JobFacts() | JobUnknown() | None:
            pass
        case _:
            assert_never(view.job)
    if view.identity.is_deleted and not view.cluster.is_there:
        return _changed(status, phase="Stopped", stop=None)
    if isinstance(view.result, StopFailed) and status.stop.reason == "upgrade":
        return _not_stopped(status, view, view.result.message)
    return _with_stop(status, view)


def _not_stopped(status: JobResourceStatus, view: JobView, message: str) -> JobResourceStatus:
    """The old job continues: its replacement counts as refused."""
    desired = _desired(view)
    refusal = None
    if desired is not None:
        refusal = Refusal(digest=desired.digest, reason="StopFailed", message=message, at=view.now.text)
    return _changed(status, phase="Running", stop=None, refusal=refusal or status.refusal)


# ---- what should happen ------------------------------------------------------------------------------------------


def _with_stop(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    """The status with the stop that the spec asks for; a stop that is under way may become a harder one."""
    reason = _reason_to_stop(status, view)
    if reason is None:
        return status
    stop = Stop(reason=reason, way=_way_to_stop(status, view, reason))
    return status if stop == status.stop else _changed(status, phase="Stopping", stop=stop)


def _reason_to_stop(status: JobResourceStatus, view: JobView) -> StopReason | None:
    if view.identity.is_deleted:
        return "delete"
    if view.spec is not None and view.spec.state == "suspended":
        return "suspend"
    if status.stop is not None:
        # it has begun: the job ends, and what is desired then is started
        return "upgrade"
    desired = _desired(view)
    if desired is None or _is_same(status, desired) or _was_refused(status, desired):
        return None
    return "upgrade"


def _way_to_stop(status: JobResourceStatus, view: JobView, reason: StopReason) -> StopWay:
    """A stop at a cut may become a cancel, never the other way round. A job that has not run may never reach a cut, and
    has no state of its own."""
    if status.phase == "Starting" or (status.stop is not None and status.stop.way == "cancel"):
        return "cancel"
    if reason == "delete":
        return "cancel" if view.spec is None or view.spec.on_delete == "cancel" else "cut"
    return "cut" if _mode(view) == "savepoint" else "cancel"


def _mode(view: JobView) -> UpgradeMode:
    return "savepoint" if view.spec is None else view.spec.upgrade_mode


def _desired(view: JobView) -> RunSpec | None:
    """The spec that should run now; None: none, or it is not known."""
    if view.identity.is_deleted or view.spec is None or view.spec.state == "suspended":
        return None
    return view.desired if isinstance(view.desired, RunSpec) else None


def _is_same(status: JobResourceStatus, desired: RunSpec) -> bool:
    return status.target is not None and status.target.job_key == desired.job_key


def _was_refused(status: JobResourceStatus, desired: RunSpec) -> bool:
    return status.refusal is not None and status.refusal.digest == desired.digest


def _may_try(status: JobResourceStatus, desired: RunSpec, view: JobView) -> bool:
    if status.refusal is None or not _was_refused(status, desired):
        return True
    return status.stable_spec is None and seconds_between(status.refusal.at, view.now.text) >= REFUSED_SECONDS


def _without_stale_refusal(status: JobResourceStatus, view: JobView) -> JobResourceStatus:
    """Forgets a refusal once the spec is another one, so that it may be tried again later."""
    desired = _desired(view)
    if desired is None or status.refusal is None or status.is_rolling_back or _was_refused(status, desired):
        return status
    return _changed(status, refusal=None)


def _refused(status: JobResourceStatus, view: JobView, reason: str, message: str) -> JobResourceStatus:
    """Remembers the refusal; the stable spec is submitted in place of what was refused."""
    assert status.target is not None, "it was submitted"
    if status.is_rolling_back and status.refusal is not None:
        both = f"{status.refusal.message}\nand the last stable spec was refused, too: {message}"
        refusal = status.refusal.model_copy(update={"reason": "RollbackFailed", "message": both})
        # without a target any spec that was not refused is tried, also the stable one
        return _changed(status, phase="Ended", refusal=refusal, is_rolling_back=False, target=None)
    refusal = Refusal(digest=status.target.digest, reason=reason, message=message, at=view.now.text)
    if status.stable_spec is None or view.identity.is_deleted:
        return _changed(status, phase="Stopped", refusal=refusal)
    # a job that failed before it ran has put nothing out: the old one goes on from where it was stopped
    return _submission(_changed(status, refusal=refusal, is_rolling_back=True), status.stable_spec, view)


def _left(status: JobResourceStatus, job: JobFacts) -> Mapping[str, Any]:
    """The changes of the status by which the next job continues from an ended one."""
    return {
        "origin": job.origin or status.origin,
        "last_savepoint": job.savepoint or status.last_savepoint,
        "running_since": None,
    }


def _changed(status: JobResourceStatus, **changes: Any) -> JobResourceStatus:
    return status.model_copy(update=changes)
