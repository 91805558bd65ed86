"""A HeadraceSnapshot: from its status and a view to the next status, and the next step. Pure.

                the job runs                 its savepoint is complete
    Pending ──────────────────> InProgress ────────────────────────────> Completed
       │                            │
       └── the job is gone,         └── the coordinator refused it, or it failed ──> Failed
           or has ended ──> Failed

A savepoint is triggered under a folder of this snapshot's own, if the spec names a folder. An operator that is killed
between the trigger and its record finds the savepoint there, once it is complete, and triggers no other one. One that
was still being taken then stays as a second one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, assert_never

from headrace.kubernetes_operator.decisions import steps
from headrace.kubernetes_operator.decisions.job_view import FINAL_STATES, Identity, Moment
from headrace.kubernetes_operator.resources.conditions import DEGRADED, READY, Condition, condition, dated
from headrace.kubernetes_operator.resources.snapshot_resource import SnapshotSpec, SnapshotStatus

BUSY_SECONDS, IDLE_SECONDS = 0.5, 60.0


@dataclass(frozen=True, slots=True)
class TriggerFacts:
    """The savepoint as the coordinator shows it."""

    status: Literal["in-progress", "completed", "failed"]
    path: str | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class SnapshotView:
    """Everything that a decision depends on, beside the status.

    spec      None: it cannot be read
    cluster   of the job; empty: there is no such HeadraceJob, or it has no job
    job_id    the job that runs now, or ran last; job_state: its state, empty: the cluster does not answer
    trigger   the operation of the status; None: it is not known
    taken     location of a complete savepoint in this snapshot's own folder
    """

    identity: Identity
    spec: SnapshotSpec | None
    cluster: str
    job_id: str | None
    job_state: str
    trigger: TriggerFacts | None
    taken: str | None
    now: Moment
    result: steps.Result | None = None


def next_snapshot_status(status: SnapshotStatus, view: SnapshotView) -> SnapshotStatus:
    """The status to record next, with its conditions."""
    after = _advance(status, view)
    generation = view.identity.generation
    failure = _failure(after, status, view)
    conditions = [
        condition(
            READY, after.phase, after.location or failure or _waits(after, view), is_so=after.phase == "Completed"
        ),
        condition(DEGRADED, after.phase, failure, is_so=bool(failure)),
    ]
    return after.model_copy(
        update={
            "observed_generation": generation,
            "conditions": dated(conditions, status.conditions, now=view.now.text, generation=generation),
        }
    )


def next_snapshot_step(status: SnapshotStatus, view: SnapshotView) -> steps.SnapshotStep:
    """The step that the recorded status asks for."""
    if view.identity.is_deleted:
        return _deletion(status, view)
    if not view.identity.is_kept:
        return steps.AddFinalizer()
    match status.phase:
        case "InProgress" if status.trigger is None and view.taken is None and view.job_id == status.job_id:
            assert status.job_id is not None, "the phase has one"
            return steps.TakeSavepoint(view.cluster, status.job_id, own_folder(view))
        case "Pending" | "InProgress":
            return steps.Wait(BUSY_SECONDS)
        case "Completed" | "Failed":
            return steps.Wait(IDLE_SECONDS)
        case _:
            assert_never(status.phase)


def own_folder(view: SnapshotView) -> str | None:
    """The folder that holds this snapshot's savepoint alone; None: the spec names none."""
    if view.spec is None or view.spec.folder is None:
        return None
    return f"{view.spec.folder.rstrip('/')}/{view.identity.name}-{view.identity.uid}"


def _advance(status: SnapshotStatus, view: SnapshotView) -> SnapshotStatus:
    match status.phase:
        case "Pending" if view.job_state == "RUNNING" and not view.identity.is_deleted:
            return _changed(status, phase="InProgress", job_id=view.job_id)
        case "Pending" if view.job_state in FINAL_STATES:
            return _changed(status, phase="Failed")
        case "InProgress" if view.taken is not None:
            return _completed(status, view, view.taken)
        case "InProgress" if isinstance(view.result, steps.Triggered) and view.result.job_id == status.job_id:
            return _changed(status, trigger=view.result.trigger)
        case "InProgress" if isinstance(view.result, steps.SavepointRefused):
            return _changed(status, phase="Failed")
        case "InProgress" if view.trigger is not None and view.trigger.status == "completed":
            return _completed(status, view, view.trigger.path)
        case "InProgress" if view.trigger is not None and view.trigger.status == "failed":
            return _changed(status, phase="Failed")
        case "InProgress" if view.job_state in FINAL_STATES or view.job_id not in {None, status.job_id}:
            return _changed(status, phase="Failed")
        case "Pending" | "InProgress" | "Completed" | "Failed":
            return status
        case _:
            assert_never(status.phase)


def _completed(status: SnapshotStatus, view: SnapshotView, location: str | None) -> SnapshotStatus:
    return _changed(status, phase="Completed", location=location, completed_at=view.now.text)


def _failure(after: SnapshotStatus, before: SnapshotStatus, view: SnapshotView) -> str:
    """Why there is no savepoint; the message of before once it has been said."""
    if after.phase == "Failed" and before.phase == "Failed":
        return _said(before.conditions)
    if after.phase == "Failed":
        if isinstance(view.result, steps.SavepointRefused):
            return view.result.message
        if view.trigger is not None and view.trigger.message:
            return view.trigger.message
        return "the job has ended, or another one has taken its place"
    return view.result.message if isinstance(view.result, steps.Delayed) else ""


def _waits(status: SnapshotStatus, view: SnapshotView) -> str:
    if status.phase != "Pending" or view.job_id is not None or view.spec is None:
        return ""
    return f"it waits for a job of the HeadraceJob {view.spec.job}"


def _said(conditions: tuple[Condition, ...]) -> str:
    return next((each.message for each in conditions if each.type == DEGRADED), "")


def _deletion(status: SnapshotStatus, view: SnapshotView) -> steps.SnapshotStep:
    if not view.identity.is_kept:
        return steps.Wait(IDLE_SECONDS)
    # one whose outcome is not known yet would leave files behind
    if status.phase == "InProgress" and status.trigger is not None:
        return steps.Wait(BUSY_SECONDS)
    goes_along = view.spec is not None and view.spec.disposal == "delete"
    if status.location is not None and goes_along and not isinstance(view.result, steps.Disposed):
        return steps.DisposeSavepoint(status.location)
    return steps.RemoveFinalizer()


def _changed(status: SnapshotStatus, **changes: object) -> SnapshotStatus:
    return status.model_copy(update=changes)
