"""A HeadraceJob and what surrounds it: observes, records, acts. Blocking; one thread at a time."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import assert_never

from headrace.client.http import Client
from headrace.client.models import JobStatus
from headrace.client.requests import SubmitRequest
from headrace.client.submission import file_form
from headrace.core.errors import ExternalError, HeadraceError, InvalidPipelineError, Problem, UserError
from headrace.kubernetes.connection import AlreadyExistsError, ConflictError, Connection, NotFoundError
from headrace.kubernetes.documents import Document, metadata_of
from headrace.kubernetes_operator.decisions import steps
from headrace.kubernetes_operator.decisions.job_conditions import next_status
from headrace.kubernetes_operator.decisions.job_steps import next_step
from headrace.kubernetes_operator.decisions.job_view import (
    FINAL_STATES,
    ClusterFacts,
    JobFacts,
    JobMissing,
    JobUnknown,
    JobView,
    Moment,
    NoDesire,
    SnapshotFacts,
)
from headrace.kubernetes_operator.resources.conditions import announcements, epoch_seconds
from headrace.kubernetes_operator.resources.job import JobResourceStatus, JobSpec
from headrace.kubernetes_operator.resources.kinds import API, JOB, JOB_LABEL, SNAPSHOT
from headrace.kubernetes_operator.resources.snapshot_resource import SnapshotStatus
from headrace.kubernetes_operator.rounds import Decision
from headrace.kubernetes_operator.shell.cluster_access import ClusterAccess, Owner, Seen
from headrace.kubernetes_operator.shell.own_object import OwnObject
from headrace.kubernetes_operator.shell.resource_store import Key, collection_of, created_at, identity_of, status_of
from headrace.kubernetes_operator.shell.spec_reading import run_spec_of, spec_of, variables_of
from headrace.plan.every_problem import every_problem
from headrace.spec.reading.load import LoadedPipeline, PartlyReadError, load_text

FILE = "pipeline"
"""Names the pipeline in problems: `pipeline:7:3: ..`."""


def submit(
    client: Client, step: steps.Submit, variables: Mapping[str, str]
) -> steps.Submitted | steps.Refused | steps.Delayed:
    """Reads the pipeline and submits it. variables: values of `${NAME}`, never the operator's own environment."""
    try:
        loaded = load_text(step.spec.pipeline, FILE, environ=variables)
    except PartlyReadError as error:
        return _invalid(step, every_problem(error).problems)
    except InvalidPipelineError as error:
        return _invalid(step, error.problems)
    except UserError as error:
        return steps.Refused(step.key, "InvalidPipeline", str(error))
    request = SubmitRequest(
        pipeline=file_form(loaded.pipeline),
        parallelism=step.spec.parallelism,
        max_parallelism=step.spec.max_parallelism,
        from_savepoint=step.origin,
        take_over=step.takes_over,
        allow_dropped_state=step.spec.allow_dropped_state,
        accepted_topics=step.spec.accept_new_topics,
        key=step.key,
    )
    try:
        return steps.Submitted(step.key, client.submit(request))
    except InvalidPipelineError as error:
        return _invalid(step, [_located(problem, loaded) for problem in error.problems])
    except (UserError, ExternalError) as error:
        if error.retry:
            return steps.Delayed(str(error))
        return steps.Refused(step.key, "Refused" if isinstance(error, UserError) else "ClusterFailed", str(error))


def _invalid(step: steps.Submit, problems: Iterable[Problem]) -> steps.Refused:
    is_object = step.spec.pipeline.startswith("{")
    return steps.Refused(
        step.key, "InvalidPipeline", "\n".join(_text(problem, by_path=is_object) for problem in problems)
    )


def _text(problem: Problem, *, by_path: bool) -> str:
    """Of a pipeline that was written as an object nobody knows lines."""
    if by_path and problem.path:
        problem = Problem(problem.message, problem.path, None, problem.remedy)
    return str(problem)


def _located(problem: Problem, loaded: LoadedPipeline) -> Problem:
    """The coordinator names a path: only here the lines are known."""
    if problem.location is not None:
        return problem
    return Problem(problem.message, problem.path, loaded.locate(problem.path), problem.remedy)


WAITING_STATES = frozenset({"CREATED", "SCHEDULING", "RESTARTING"})
"""States of a job that may wait for slots."""
NO_CLUSTER = ClusterFacts(is_there=False, deployed=False, leads=False)


class JobWorld:
    """One HeadraceJob. clock: the time now."""

    def __init__(self, key: Key, connection: Connection, clock: Callable[[], Moment]) -> None:
        self._key = key
        self._connection = connection
        self._clock = clock
        self._clusters = ClusterAccess(connection)
        self._object = OwnObject(key, connection)
        self._stop: tuple[str, str] | None = None
        """Job and name of the stop that this operator has asked for: it is asked for once, and then looked at."""

    # ---- decide --------------------------------------------------------------------------------------------------

    def decide(self, result: steps.Result | None) -> Decision[JobResourceStatus, steps.JobStep] | None:
        """Observes the object, its cluster, its job and its snapshots. Raises ExternalError."""
        document = self._object.read()
        if document is None:
            return None
        status = status_of(document, JobResourceStatus)
        view = self._view(document, status, result)
        after = next_status(status, view)
        return Decision(status, after, next_step(status, view), keeps_result=after.phase == status.phase)

    def _view(self, document: Document, status: JobResourceStatus, result: steps.Result | None) -> JobView:
        read = spec_of(document, JobSpec)
        spec = None if isinstance(read, NoDesire) else read
        desired = read if isinstance(read, NoDesire) else run_spec_of(document, read, self._connection)
        cluster = self._cluster_name(status, spec)
        owner = Owner.of(JOB, document) if spec is not None and spec.own_cluster is not None else None
        seen = None if not cluster else self._clusters.look(cluster, self._key.namespace, owner=owner)
        return JobView(
            identity=identity_of(document),
            spec=spec,
            desired=desired,
            cluster=NO_CLUSTER if seen is None else seen.facts,
            job=None if seen is None else self._job(status, cluster, seen),
            now=self._clock(),
            result=result,
            snapshots=self._snapshots(),
        )

    def _cluster_name(self, status: JobResourceStatus, spec: JobSpec | None) -> str:
        """The cluster of the job that runs or is being submitted, else of the one that should."""
        if status.phase in {"Submitting", "Starting", "Running", "Stopping"} and status.target is not None:
            return status.target.cluster
        if spec is None:
            return "" if status.target is None else status.target.cluster
        return spec.cluster or self._key.name

    def _job(self, status: JobResourceStatus, cluster: str, seen: Seen) -> JobFacts | JobMissing | JobUnknown | None:
        # a job that has ended is not looked at again
        if status.job_id is None or status.phase in {"Stopped", "Ended", "Submitting"}:
            return None
        if not seen.facts.leads:
            return JobUnknown("no coordinator leads the cluster")
        try:
            with self._clusters.client(cluster, self._key.namespace, seen.view.leader) as client:
                return _job_facts(client, status.job_id)
        except HeadraceError as error:
            return JobUnknown(str(error))

    def _snapshots(self) -> Sequence[SnapshotFacts]:
        collection = collection_of(SNAPSHOT, self._key.namespace)
        listed = self._connection.list(collection, labels=f"{JOB_LABEL}={self._key.name}")
        return [_snapshot_facts(each) for each in listed.items]

    # ---- record --------------------------------------------------------------------------------------------------

    def record(self, decision: Decision[JobResourceStatus, steps.JobStep]) -> None:
        """Writes the status, then events about what has changed. Raises ConflictError, ExternalError."""
        before, after = decision.status, decision.after
        events = announcements(before.conditions, after.conditions, phase_before=before.phase, phase=after.phase)
        self._object.record(after, events, self._clock().text)

    # ---- act -----------------------------------------------------------------------------------------------------

    def act(self, step: steps.JobStep) -> steps.Result | None:
        """Executes a step. Raises ExternalError, UserError."""
        match step:
            case steps.Wait():
                return None
            case steps.AddFinalizer() | steps.RemoveFinalizer():
                self._object.set_kept(is_kept=isinstance(step, steps.AddFinalizer))
                return None
            case steps.ApplyCluster(name, spec, digest):
                owner = Owner.of(JOB, self._object.document)
                self._clusters.apply(name, self._key.namespace, spec, digest=digest, owner=owner)
                return None
            case steps.DeleteCluster(name):
                owner = Owner.of(JOB, self._object.document)
                self._clusters.delete(name, self._key.namespace, owner=owner)
                return None
            case steps.Submit():
                variables = variables_of(step.spec, self._key.namespace, self._connection)
                with self._clusters.client(step.spec.cluster, self._key.namespace) as client:
                    return submit(client, step, variables)
            case steps.StopJob():
                with self._clusters.client(step.cluster, self._key.namespace) as client:
                    return self._stop_job(client, step)
            case steps.CancelJob(cluster, job_id):
                with self._clusters.client(cluster, self._key.namespace) as client:
                    client.cancel(job_id)
                return None
            case steps.CreateSnapshot() | steps.DeleteSnapshot():
                self._change_snapshots(step)
                return None
            case _:
                assert_never(step)

    def _stop_job(self, client: Client, step: steps.StopJob) -> steps.Result | None:
        """Requests the stop, or reads the state of an earlier request."""
        if self._stop is not None and self._stop[0] == step.job_id:
            trigger = client.trigger(*self._stop)
        else:
            trigger = client.stop(step.job_id, step.folder)
            self._stop = (step.job_id, trigger.trigger_id)
        if trigger.status == "in-progress":
            return None
        self._stop = None
        if trigger.status == "completed" or trigger.error is None:
            return None
        # one that waits for the job to restart is in the way of a second one, and goes on
        if client.status(step.job_id).state != "RUNNING":
            return steps.Delayed(trigger.error.message)
        return steps.StopFailed(step.job_id, trigger.error.message)

    def _change_snapshots(self, step: steps.CreateSnapshot | steps.DeleteSnapshot) -> None:
        collection = collection_of(SNAPSHOT, self._key.namespace)
        if isinstance(step, steps.DeleteSnapshot):
            with contextlib.suppress(NotFoundError, ConflictError):
                existing = metadata_of(self._connection.get(collection, step.name))
                if existing.labels.get(JOB_LABEL) == self._key.name:
                    self._connection.delete(collection, step.name, uid=existing.uid)
            return
        metadata = {
            "name": step.name,
            "labels": {JOB_LABEL: self._key.name},
            "ownerReferences": [dict(Owner.of(JOB, self._object.document).reference())]
            if step.spec.disposal == "delete"
            else [],
        }
        spec = step.spec.model_dump(mode="json", by_alias=True, exclude_none=True)
        with contextlib.suppress(AlreadyExistsError):
            self._connection.create(
                collection, {"apiVersion": API, "kind": SNAPSHOT.name, "metadata": metadata, "spec": spec}
            )


def _job_facts(client: Client, job_id: str) -> JobFacts | JobMissing:
    try:
        job = client.status(job_id)
    except UserError:
        if any(each.job_id == job_id for each in client.jobs()):
            raise
        return JobMissing()
    return JobFacts(
        job_id=job_id,
        state=job.state,
        origin=_origin(client, job),
        savepoint=job.savepoint,
        failure=job.failure or "",
        message=job.message or "",
        alarm=job.alarm or "",
        lacks=_lacks(client, job),
    )


def _lacks(client: Client, job: JobStatus) -> str:
    """Why a job that waits for slots gets none, in the words of the system that has the workers."""
    if job.state not in WAITING_STATES:
        return ""
    provisioning = client.cluster().provisioning
    if provisioning is None:
        return ""
    reasons = (f"worker {each.worker}: {each.reason}" for each in provisioning.expected if each.reason)
    return provisioning.trouble or next(reasons, "")


def _origin(client: Client, job: JobStatus) -> str | None:
    """The path from which another job may go on."""
    if job.savepoint is not None and job.state in FINAL_STATES:
        return job.savepoint
    if job.state in FINAL_STATES:
        # the status of a job that ended under another coordinator has none
        newest = next((each.path for each in client.checkpoints(job.job_id) if each.path is not None), None)
        if newest is not None:
            return newest
    return None if job.checkpoint is None else job.checkpoint.path


def _snapshot_facts(document: Document) -> SnapshotFacts:
    status = status_of(document, SnapshotStatus)
    created_s = epoch_seconds(created_at(document))
    return SnapshotFacts(metadata_of(document).name, created_s, status.phase, status.location)
