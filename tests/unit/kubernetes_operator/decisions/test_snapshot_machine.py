"""A HeadraceSnapshot from its creation to the end of its files."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.kubernetes_operator.decisions.job_view import Identity, Moment
from headrace.kubernetes_operator.decisions.snapshot_machine import (
    SnapshotView,
    TriggerFacts,
    next_snapshot_status,
    next_snapshot_step,
)
from headrace.kubernetes_operator.decisions.steps import (
    AddFinalizer,
    Disposed,
    DisposeSavepoint,
    RemoveFinalizer,
    SavepointRefused,
    TakeSavepoint,
    Triggered,
    Wait,
)
from headrace.kubernetes_operator.resources.conditions import time_text
from headrace.kubernetes_operator.resources.snapshot_resource import SnapshotSpec, SnapshotStatus
from support.operator.views import NOW_S

FOLDER = "/saved/mine-uid"
BEGUN = SnapshotStatus(phase="InProgress").model_copy(update={"job_id": "job1"})
ASKED = BEGUN.model_copy(update={"trigger": "t1"})
DONE = SnapshotStatus(phase="Completed", location="/saved/x")


def view_of(**changes: Any) -> SnapshotView:
    view = SnapshotView(
        identity=Identity("mine", "data", "uid", 1, is_deleted=False, is_kept=True),
        spec=SnapshotSpec(job="flights", folder="/saved"),
        cluster="session",
        job_id="job1",
        job_state="RUNNING",
        trigger=None,
        taken=None,
        now=Moment(NOW_S, time_text(NOW_S)),
    )
    return replace(view, **changes)


def deleted(disposal: str, **changes: Any) -> SnapshotView:
    spec = SnapshotSpec.model_validate({"job": "flights", "disposal": disposal})
    identity = Identity("mine", "data", "uid", 1, is_deleted=True, is_kept=True)
    return view_of(identity=identity, spec=spec, **changes)


def test_it_is_recorded_before_it_is_triggered() -> None:
    assert next_snapshot_status(SnapshotStatus(), view_of()).phase == "InProgress"
    assert isinstance(next_snapshot_step(SnapshotStatus(), view_of()), Wait)
    assert next_snapshot_step(BEGUN, view_of()) == TakeSavepoint("session", "job1", FOLDER)
    assert next_snapshot_step(BEGUN, view_of(spec=SnapshotSpec(job="flights"))) == TakeSavepoint(
        "session", "job1", None
    )


def test_a_trigger_is_recorded_and_waited_for() -> None:
    assert next_snapshot_status(BEGUN, view_of(result=Triggered("job1", "t1"))).trigger == "t1"
    assert isinstance(next_snapshot_step(ASKED, view_of()), Wait)
    done = next_snapshot_status(ASKED, view_of(trigger=TriggerFacts("completed", f"{FOLDER}/savepoint-1")))
    assert (done.phase, done.location) == ("Completed", f"{FOLDER}/savepoint-1")
    assert done.conditions[0].status == "True"


def test_an_operator_that_was_killed_before_it_recorded_the_trigger_finds_the_savepoint() -> None:
    seen = view_of(taken=f"{FOLDER}/savepoint-1")
    assert isinstance(next_snapshot_step(BEGUN, seen), Wait)
    done = next_snapshot_status(BEGUN, seen)
    assert (done.phase, done.location) == ("Completed", f"{FOLDER}/savepoint-1")


@pytest.mark.parametrize(
    ("seen", "message"),
    [
        (view_of(result=SavepointRefused("the folder is read-only")), "the folder is read-only"),
        (view_of(trigger=TriggerFacts("failed", message="the attempt failed")), "the attempt failed"),
        (view_of(job_state="FAILED"), "the job has ended, or another one has taken its place"),
        (view_of(job_id="job2"), "the job has ended, or another one has taken its place"),
    ],
)
def test_a_failure_says_why_and_is_final(seen: SnapshotView, message: str) -> None:
    failed = next_snapshot_status(ASKED, seen)
    assert (failed.phase, failed.conditions[1].status, failed.conditions[1].message) == ("Failed", "True", message)
    assert next_snapshot_status(failed, view_of()).conditions == failed.conditions


def test_it_waits_for_a_job() -> None:
    for waiting in (view_of(job_id=None, job_state=""), view_of(job_state="RESTARTING")):
        assert next_snapshot_status(SnapshotStatus(), waiting).phase == "Pending"
    assert next_snapshot_status(SnapshotStatus(), view_of(job_state="FINISHED")).phase == "Failed"


def test_its_files_go_with_it_if_it_says_so() -> None:
    assert next_snapshot_step(DONE, deleted("keep")) == RemoveFinalizer()
    assert next_snapshot_step(DONE, deleted("delete")) == DisposeSavepoint("/saved/x")
    assert next_snapshot_step(DONE, deleted("delete", result=Disposed())) == RemoveFinalizer()
    # what is being taken would be left behind
    assert isinstance(next_snapshot_step(ASKED, deleted("delete")), Wait)


def test_it_is_kept_until_its_files_are_gone() -> None:
    fresh = view_of(identity=Identity("mine", "data", "uid", 1, is_deleted=False, is_kept=False))
    assert next_snapshot_step(SnapshotStatus(), fresh) == AddFinalizer()
