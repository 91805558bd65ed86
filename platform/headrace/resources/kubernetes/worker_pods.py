"""Workers that are pods: the resource driver `kubernetes`.

A worker's id is the name of its pod, which people see in `kubectl get pods` and in `headrace status`. The pods belong
to the Deployment of their coordinators, and are deleted with it.
"""

from __future__ import annotations

import threading

from headrace.core.errors import ExternalError, UserError
from headrace.kubernetes.collection import Collection
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import metadata_of
from headrace.kubernetes.ownership import Claim
from headrace.kubernetes.refusals import AlreadyExistsError, ConflictError, NotFoundError
from headrace.resources.driver import WorkerReport
from headrace.resources.kubernetes.labels import WORKER, selector_of
from headrace.resources.kubernetes.pod_report import pod_report
from headrace.resources.kubernetes.worker_pod import Owner, worker_pod
from headrace.resources.kubernetes.workers_file import WorkersFile
from headrace.resources.worker_order import WorkerOrder


class WorkerPods:
    """The driver. term: of the coordinator, noted at each pod. It closes the connection."""

    def __init__(self, connection: Connection, workers: WorkersFile, order: WorkerOrder, *, term: int) -> None:
        self._connection = connection
        self._workers = workers
        self._order = order
        self._term = term
        self._pods = Collection("v1", "pods", workers.namespace)
        self._claim = Claim(workers.cluster)
        self._lock = threading.Lock()
        self._owner: Owner | None = None

    def start(self, worker: str) -> None:
        """Creates the pod. Raises ExternalError with the API server's reason: a quota, a missing right, a template
        that it refuses."""
        pod = worker_pod(
            self._workers.template,
            worker,
            self._order.arguments(worker),
            cluster=self._workers.cluster,
            term=self._term,
            owner=self._found_owner(),
        )
        try:
            self._connection.create(self._pods, pod)
        except AlreadyExistsError as error:
            # an answer was lost: ids are used once, so one of ours is the same one
            if owner := self._other_owner(worker):
                raise ExternalError(
                    f"there is a pod {worker}, which belongs to {owner}", remedy="give it another name"
                ) from error
        except UserError as error:
            raise ExternalError(f"pod {worker} is refused: {error.message}", remedy=error.remedy) from error

    def release(self, worker: str) -> None:
        """Deletes the pod, whose containers have the grace time of the template to end."""
        try:
            found = self._connection.get(self._pods, worker)
            # by its uid: of that name there may be another one by now, if a person has made it
            if not self._claim.other_owner(found):
                self._connection.delete(self._pods, worker, uid=metadata_of(found).uid)
        except (NotFoundError, ConflictError):
            return

    def workers(self) -> tuple[WorkerReport, ...]:
        """The pods of workers, by name; also those that are being deleted, until their containers have ended."""
        listed = self._connection.list(self._pods, labels=selector_of(self._workers.cluster, WORKER))
        return tuple(sorted((pod_report(each) for each in listed.items), key=lambda each: each.worker))

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def _other_owner(self, worker: str) -> str:
        try:
            return self._claim.other_owner(self._connection.get(self._pods, worker))
        except NotFoundError:
            return ""

    def _found_owner(self) -> Owner:
        """The owner with its uid. Raises ExternalError if there is none: pods without it would be left behind."""
        named = self._workers.owner
        with self._lock:
            if self._owner is None:
                where = Collection(named.api_version, named.plural, self._workers.namespace)
                try:
                    found = metadata_of(self._connection.get(where, named.name))
                except NotFoundError as error:
                    raise ExternalError(
                        f"there is no {named.kind} {named.name} in namespace {self._workers.namespace}, to which the "
                        "pods of workers would belong",
                        remedy="start the cluster again; its coordinators must be pods of that object",
                        retry=True,
                    ) from error
                self._owner = Owner(named.api_version, named.kind, named.name, found.uid)
            return self._owner
