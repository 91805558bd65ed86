"""Steps around a job: its finalizer, its own cluster, its stop, its snapshots."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.deployment.kubernetes.cluster_spec import ClusterSpec
from headrace.kubernetes_operator.decisions.job_machine import advance
from headrace.kubernetes_operator.decisions.job_steps import cluster_digest, next_step, noted, snapshot_step
from headrace.kubernetes_operator.decisions.job_view import ClusterFacts, Identity, JobView, SnapshotFacts
from headrace.kubernetes_operator.decisions.steps import (
    AddFinalizer,
    ApplyCluster,
    CancelJob,
    CreateSnapshot,
    DeleteCluster,
    DeleteSnapshot,
    RemoveFinalizer,
    StopFailed,
    StopJob,
    Submit,
    Wait,
)
from headrace.kubernetes_operator.resources.conditions import time_text
from headrace.kubernetes_operator.resources.job import JobResourceStatus, Stop, StopReason, StopWay
from headrace.kubernetes_operator.resources.snapshot_resource import SnapshotPhase
from support.operator.views import LEADING, NOW_S, OWN, RUN, deleted, facts, running, view_of

DIGEST = cluster_digest(ClusterSpec.model_validate(OWN))
APPLIED = replace(LEADING, applied=DIGEST)
NOWHERE = ClusterFacts(is_there=False, deployed=False, leads=False)
SILENT = ClusterFacts(is_there=True, deployed=True, leads=False, applied=DIGEST)
SUBMITTING = JobResourceStatus(phase="Submitting", target=RUN, submissions=1)


def own_view(**changes: Any) -> JobView:
    """Of a job with its own cluster."""
    spec = {"cluster": None, "ownCluster": OWN, **changes.pop("spec", {})}
    return view_of(spec, cluster=changes.pop("cluster", APPLIED), **changes)


def stopping(reason: StopReason = "upgrade", way: StopWay = "cut") -> JobResourceStatus:
    return running(phase="Stopping", stop=Stop(reason=reason, way=way))


def test_nothing_is_begun_before_the_object_is_kept() -> None:
    fresh = Identity("flights", "data", "uid", 1, is_deleted=False, is_kept=False)
    assert next_step(JobResourceStatus(), view_of(identity=fresh)) == AddFinalizer()
    assert isinstance(next_step(JobResourceStatus(), view_of(identity=deleted(is_kept=False))), Wait)


def test_its_own_cluster_comes_before_the_job() -> None:
    apply = ApplyCluster("flights", ClusterSpec.model_validate(OWN), DIGEST)
    assert next_step(SUBMITTING, own_view(cluster=NOWHERE)) == apply
    assert next_step(SUBMITTING, own_view(cluster=replace(APPLIED, applied="another"))) == apply
    assert isinstance(next_step(SUBMITTING, own_view(cluster=SILENT)), Wait)
    assert next_step(SUBMITTING, own_view()) == Submit(RUN, "uid/1", None)
    # a change of its spec is applied while the job runs
    assert next_step(running(), own_view(cluster=replace(APPLIED, applied="another"), job=facts())) == apply


def test_what_an_ended_job_left_is_taken_over_and_what_a_user_names_is_not() -> None:
    """A coordinator that died may have left the journal of a job that it ended without its end."""
    first = SUBMITTING.model_copy(update={"origin": "s3://b/theirs"})
    assert next_step(first, own_view()) == Submit(RUN, "uid/1", "s3://b/theirs", takes_over=False)
    following = SUBMITTING.model_copy(update={"origin": "s3://b/left", "job_id": "before"})
    assert next_step(following, own_view()) == Submit(RUN, "uid/1", "s3://b/left", takes_over=True)
    anew = following.model_copy(update={"starts_empty": True})
    assert next_step(anew, own_view()) == Submit(RUN, "uid/1", None, takes_over=False)


@pytest.mark.parametrize("phase", ["Stopped", "Ended"])
def test_its_own_cluster_goes_when_no_job_is_to_run(phase: Any) -> None:
    status = running(phase=phase)
    suspended = own_view(spec={"state": "suspended"})
    assert next_step(status, suspended) == DeleteCluster("flights")
    assert isinstance(next_step(status, replace(suspended, cluster=NOWHERE)), Wait)
    assert next_step(status, own_view(identity=deleted())) == DeleteCluster("flights")
    assert next_step(status, own_view(identity=deleted(), cluster=NOWHERE)) == RemoveFinalizer()


def test_a_cluster_of_others_stays() -> None:
    assert next_step(running(phase="Stopped"), view_of(identity=deleted())) == RemoveFinalizer()


def test_a_deleted_job_whose_own_cluster_never_led_goes_with_it() -> None:
    gone = own_view(identity=deleted(), cluster=SILENT)
    assert next_step(SUBMITTING, gone) == DeleteCluster("flights")
    assert next_step(stopping("delete", "cancel"), gone) == DeleteCluster("flights")
    assert advance(SUBMITTING, replace(gone, cluster=NOWHERE)).phase == "Stopped"
    # it owes a savepoint
    owing = own_view(identity=deleted(), cluster=SILENT, spec={"onDelete": "savepoint"})
    assert isinstance(next_step(stopping("delete"), owing), Wait)


def test_a_stop_is_asked_for_until_the_job_stops() -> None:
    spec = {"savepointFolder": "/saved"}
    ask = StopJob("session", "job1", "/saved")
    assert next_step(stopping(), view_of(spec, job=facts())) == ask
    assert next_step(stopping(), view_of(spec, job=facts("RESTARTING"))) == ask
    assert isinstance(next_step(stopping(), view_of(spec, job=facts("STOPPING"))), Wait)
    cancel = CancelJob("session", "job1")
    assert next_step(stopping(way="cancel"), view_of(job=facts("STOPPING"))) == cancel
    assert isinstance(next_step(stopping(way="cancel"), view_of(job=facts("CANCELLING"))), Wait)


def test_a_stop_may_become_a_cancel_and_stays_one() -> None:
    hasty = view_of({"upgradeMode": "last-state"}, job=facts("RESTARTING"))
    cancelled = advance(stopping(), hasty)
    assert cancelled.stop == Stop(reason="upgrade", way="cancel")
    assert advance(cancelled, view_of(job=facts("CANCELLING"))).stop == cancelled.stop


def test_a_stop_that_fails_leaves_the_job_and_counts_as_a_refusal() -> None:
    failed = StopFailed("job1", "the folder is read-only")
    desired = RUN.model_copy(update={"pipeline": "second"})
    view = view_of(desired=desired, job=facts(), result=failed)
    after = advance(stopping(), view)
    assert (after.phase, after.stop) == ("Running", None)
    assert after.refusal is not None
    assert (after.refusal.reason, after.refusal.digest) == ("StopFailed", desired.digest)
    assert advance(after, replace(view, result=None)).phase == "Running", "it is not tried again as it is"
    # a job that is to be suspended or deleted is stopped all the same
    assert advance(stopping("suspend"), view_of({"state": "suspended"}, job=facts(), result=failed)).phase == "Stopping"


HOUR_S = 3_600.0
PERIOD = int(NOW_S // HOUR_S)


def taken(period: int, phase: SnapshotPhase = "Completed") -> SnapshotFacts:
    """The snapshot of a period, taken at its beginning."""
    location = f"/saved/{period}" if phase == "Completed" else None
    return SnapshotFacts(f"flights-periodic-{period}", period * HOUR_S, phase, location)


def step(spec: dict[str, Any] | None = None, *snapshots: SnapshotFacts, **status: Any) -> object:
    view = view_of({"snapshots": {"every": "1h", "keep": 2}} if spec is None else spec, snapshots=snapshots)
    return snapshot_step(running(**status), view)


def test_the_first_one_is_due_in_the_first_period_after_that_in_which_the_job_began() -> None:
    assert step(running_since=time_text(PERIOD * HOUR_S + 1)) is None
    due = step(running_since=time_text(PERIOD * HOUR_S - 1))
    assert isinstance(due, CreateSnapshot)
    assert (due.name, due.spec.job, due.spec.disposal) == (f"flights-periodic-{PERIOD}", "flights", "delete")


def test_one_of_each_period() -> None:
    assert step(None, taken(PERIOD), running_since=time_text(0)) is None
    due = step(None, taken(PERIOD - 1), running_since=time_text(0))
    assert isinstance(due, CreateSnapshot)
    # periods that passed while no operator was there are not made up for
    assert due.name == f"flights-periodic-{PERIOD}"


def test_none_while_no_job_runs_and_none_of_a_deleted_one() -> None:
    assert step(running_since=time_text(0), phase="Stopped") is None
    spec = {"snapshots": {"every": "1h"}, "savepointNonce": 3}
    assert snapshot_step(running(running_since=time_text(0)), view_of(spec, identity=deleted())) is None


def test_the_oldest_completed_one_beyond_those_to_keep_is_deleted() -> None:
    three = [taken(PERIOD), taken(PERIOD - 1), taken(PERIOD - 2)]
    assert step(None, *three) == DeleteSnapshot(f"flights-periodic-{PERIOD - 2}")
    assert step(None, *three[:2]) is None
    # one that failed or is being taken pushes out none that completed
    assert step(None, taken(PERIOD, "Failed"), *three[1:]) is None
    assert step(None, taken(PERIOD, "InProgress"), *three[1:]) is None
    failed = [taken(PERIOD - number, "Failed") for number in range(3)]
    assert step(None, *failed) == DeleteSnapshot(f"flights-periodic-{PERIOD - 2}")


def test_the_one_that_the_job_started_from_stays() -> None:
    three = [taken(PERIOD), taken(PERIOD - 1), taken(PERIOD - 2)]
    assert step(None, *three, origin=f"/saved/{PERIOD - 2}") is None


def test_those_of_users_are_left_alone() -> None:
    mine = [SnapshotFacts(f"mine-{number}", number, "Completed", f"/mine/{number}") for number in range(5)]
    assert step(None, taken(PERIOD), *mine) is None


def test_a_nonce_takes_one_that_is_kept() -> None:
    spec = {"savepointNonce": 7, "savepointFolder": "/saved"}
    due = step(spec)
    assert isinstance(due, CreateSnapshot)
    assert (due.name, due.spec.folder, due.spec.disposal) == ("flights-nonce-7", "/saved", "keep")
    assert step(spec, savepoint_nonce=7) is None
    assert step({"savepointNonce": 0}) is None


def test_a_nonce_is_served_once_its_snapshot_exists() -> None:
    made = SnapshotFacts("flights-nonce-7", NOW_S, "Completed", "/saved/seven")
    status = noted(running(), view_of({"savepointNonce": 7}, snapshots=[made]))
    assert (status.savepoint_nonce, status.last_savepoint) == (7, "/saved/seven")
    assert noted(running(), view_of({"savepointNonce": 8}, snapshots=[made])).savepoint_nonce == 0
