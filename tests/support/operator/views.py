"""Views of a HeadraceJob for tests of decisions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from headrace.kubernetes_operator.decisions.job_view import ClusterFacts, Identity, JobFacts, JobView, Moment
from headrace.kubernetes_operator.resources.conditions import time_text
from headrace.kubernetes_operator.resources.job import JobResourceStatus, JobSpec, RunSpec

NOW_S = 1_700_000_000.0
LEADING = ClusterFacts(is_there=True, deployed=True, leads=True)
RUN = RunSpec(pipeline="first", cluster="session")
OWN = {"image": "headrace:1", "ledger": "s3://bucket/flights"}


def view_of(spec: dict[str, Any] | None = None, **changes: Any) -> JobView:
    """A view of a job that should run. spec: fields beside the pipeline; changes: fields of the view."""
    read = JobSpec.model_validate({"pipeline": "first", "cluster": "session", **(spec or {})})
    view = JobView(
        identity=Identity("flights", "data", "uid", 1, is_deleted=False, is_kept=True),
        spec=read,
        desired=RUN,
        cluster=LEADING,
        job=None,
        now=Moment(NOW_S, time_text(NOW_S)),
    )
    return replace(view, **changes)


def running(**changes: Any) -> JobResourceStatus:
    """The status of a job that runs."""
    status = JobResourceStatus(phase="Running", target=RUN)
    fields = {"job_id": "job1", "stable_spec": RUN, "submissions": 1, "running_since": time_text(NOW_S - 10)}
    return status.model_copy(update=fields | changes)


def facts(state: str = "RUNNING", **changes: Any) -> JobFacts:
    """The job of `running` as its coordinator shows it."""
    return replace(JobFacts("job1", state), **changes)


def deleted(*, is_kept: bool = True) -> Identity:
    """An object whose deletion has begun."""
    return Identity("flights", "data", "uid", 1, is_deleted=True, is_kept=is_kept)
