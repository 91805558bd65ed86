"""What a job's conditions and events say, for everything that can be wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from headrace.kubernetes_operator.decisions.job_conditions import next_status
from headrace.kubernetes_operator.decisions.job_view import ClusterFacts, JobMissing, JobUnknown, NoDesire
from headrace.kubernetes_operator.decisions.steps import Delayed, StopFailed
from headrace.kubernetes_operator.resources.conditions import Announcement, Condition, announcements, condition_of
from headrace.kubernetes_operator.resources.job import JobResourceStatus, Refusal, Stop
from support.operator.views import LEADING, OWN, RUN, facts, running, view_of

SUBMITTING = JobResourceStatus(phase="Submitting", target=RUN, submissions=1)
STOPPING = running(phase="Stopping", stop=Stop(reason="suspend", way="cut"))
REFUSAL = Refusal(digest=RUN.digest, reason="InvalidPipeline", message="pipeline:1:1: no", at="2026-01-01T00:00:00Z")
ABSENT = ClusterFacts(is_there=False, deployed=False, leads=False)
SUSPENDED = {"state": "suspended"}


def conditions(status: JobResourceStatus, **view: Any) -> dict[str, Condition]:
    after = next_status(status, view_of(view.pop("spec", None), **view))
    return {each.type: each for each in after.conditions}


@pytest.mark.parametrize(
    ("status", "view", "reason", "message"),
    [
        (running(), {"desired": NoDesire("NoPipeline", "there is no ConfigMap x")}, "NoPipeline", "no ConfigMap x"),
        (JobResourceStatus(refusal=REFUSAL), {}, "InvalidPipeline", "pipeline:1:1: no"),
        (SUBMITTING, {"cluster": ABSENT}, "NoCluster", "no cluster of that name"),
        (SUBMITTING, {"cluster": replace(LEADING, leads=False, trouble="ErrImagePull")}, "PodsDoNotRun", "ErrImage"),
        (running(), {"cluster": replace(LEADING, leads=False)}, "NoLeader", "no coordinator leads"),
        (SUBMITTING, {"result": Delayed("the API server is away")}, "Delayed", "the API server is away"),
        (running(), {"job": JobUnknown("no answer")}, "ClusterUnreachable", "no answer"),
        (running(), {"job": JobMissing()}, "JobMissing", "does not know job job1"),
        (running(), {"job": facts("RESTARTING", failure="a worker died")}, "Restarting", "a worker died"),
        (running(), {"job": facts("SCHEDULING", lacks="ErrImagePull")}, "WorkersDoNotRun", "ErrImagePull"),
        (running(), {"job": facts(alarm="a transaction is old")}, "Alarm", "a transaction is old"),
        (running(), {"job": facts("FAILED", failure="a bad row")}, "JobFailed", "a bad row"),
        (
            STOPPING,
            {"spec": SUSPENDED, "job": facts(), "result": StopFailed("job1", "read-only")},
            "StopFailed",
            "read",
        ),
    ],
)
def test_what_is_wrong_is_said(status: JobResourceStatus, view: dict[str, Any], reason: str, message: str) -> None:
    found = conditions(status, **view)["Degraded"]
    assert (found.status, found.reason) == ("True", reason)
    assert message in found.message


def test_a_cluster_that_is_being_made_is_waited_for() -> None:
    spec = {"cluster": None, "ownCluster": OWN}
    for cluster in (ABSENT, replace(LEADING, leads=False)):
        found = conditions(SUBMITTING, spec=spec, cluster=cluster)
        assert (found["Ready"].reason, found["Degraded"].status) == ("NoLeader", "False")
    taken = conditions(SUBMITTING, spec=spec, cluster=replace(ABSENT, trouble="it is not of this resource"))
    assert (taken["Degraded"].reason, taken["Degraded"].message) == ("NoCluster", "it is not of this resource")


def test_a_job_that_runs_is_ready_and_nothing_is_wrong() -> None:
    found = conditions(running(), job=facts())
    assert [(each.type, each.status) for each in found.values()] == [
        ("Ready", "True"),
        ("Upgrading", "False"),
        ("Degraded", "False"),
    ]


def test_what_was_said_of_the_end_of_a_job_stays() -> None:
    ended = next_status(running(), view_of(job=facts("FAILED", failure="a bad row")))
    assert (ended.phase, ended.state) == ("Ended", "FAILED")
    later = next_status(ended, view_of())
    assert later == ended
    finished = next_status(running(), view_of(job=facts("FINISHED")))
    ready = condition_of(finished.conditions, "Ready")
    assert ready is not None
    assert (ready.status, ready.reason) == ("True", "Finished")


def test_a_suspended_job_is_not_ready_and_nothing_is_wrong() -> None:
    found = conditions(running(phase="Stopped", origin="/saved/x"), spec=SUSPENDED)
    assert (found["Ready"].reason, found["Ready"].message, found["Degraded"].status) == (
        "Suspended",
        "/saved/x",
        "False",
    )


def test_a_condition_keeps_its_time_until_its_status_changes() -> None:
    first = next_status(running(), view_of(job=facts()))
    later = view_of(job=facts())
    later = replace(later, now=replace(later.now, text="2030-01-01T00:00:00Z"))
    assert next_status(first, later).conditions == first.conditions
    changed = next_status(first, replace(later, job=facts("RESTARTING")))
    assert [each.last_transition_time == "2030-01-01T00:00:00Z" for each in changed.conditions] == [True, False, True]


def test_events_tell_of_another_phase_and_of_what_is_wrong_now() -> None:
    before = next_status(running(), view_of(job=facts()))
    after = next_status(before, view_of(job=facts("FAILED", failure="a bad row")))
    said = announcements(before.conditions, after.conditions, phase_before=before.phase, phase=after.phase)
    assert said == (
        Announcement("Normal", "Ended", "Running -> Ended"),
        Announcement("Warning", "JobFailed", "a bad row"),
    )
    assert announcements(after.conditions, after.conditions, phase_before="Ended", phase="Ended") == ()
