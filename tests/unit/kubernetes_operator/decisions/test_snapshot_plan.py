"""Snapshots of a job: when they are due, how they are named, which are deleted."""

from __future__ import annotations

from typing import Any

from headrace.kubernetes_operator.decisions.job_view import SnapshotFacts
from headrace.kubernetes_operator.decisions.snapshot_plan import noted, snapshot_step
from headrace.kubernetes_operator.decisions.steps import CreateSnapshot, DeleteSnapshot
from headrace.kubernetes_operator.decisions.times import time_text
from headrace.kubernetes_operator.resources.snapshot_resource import SnapshotPhase
from support.operator.views import NOW_S, deleted, running, view_of

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
