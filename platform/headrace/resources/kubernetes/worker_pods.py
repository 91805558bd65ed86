"""Workers that are pods: the resource driver `kubernetes`.

A worker's id is the name of its pod, which people see in `kubectl get pods` and in `headrace status`. The pods belong
to the Deployment of their coordinators, and are deleted with it.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headrace.core.errors import ExternalError, UserError
from headrace.kubernetes.connection import AlreadyExistsError, ConflictError, Connection, NotFoundError
from headrace.kubernetes.documents import Collection, metadata_of
from headrace.kubernetes.ownership import Claim
from headrace.resources.driver import WorkerReport
from headrace.resources.kubernetes.worker_pod import WORKER, Owner, pod_report, selector_of, worker_pod
from headrace.resources.worker_order import WorkerOrder


@dataclass(frozen=True, slots=True)
class OwnerName:
    """The object with which the pods are deleted, named before it has a uid."""

    api_version: str
    kind: str
    plural: str
    name: str


@dataclass(frozen=True, slots=True)
class WorkersFile:
    """The file from which a coordinator creates its pods: the deployer has written it into the cluster's ConfigMap.

    cluster   its name, which begins the pods' names
    template  the pod template, complete except for the fields that differ
    """

    cluster: str
    namespace: str
    owner: OwnerName
    template: Mapping[str, Any]

    def document(self) -> Mapping[str, Any]:
        """As JSON."""
        owner = self.owner
        return {
            "cluster": self.cluster,
            "namespace": self.namespace,
            "owner": {
                "apiVersion": owner.api_version,
                "kind": owner.kind,
                "plural": owner.plural,
                "name": owner.name,
            },
            "template": dict(self.template),
        }


def read_workers_file(path: Path) -> WorkersFile:
    """Inverse of `WorkersFile.document`. Raises UserError."""
    try:
        found = json.loads(path.read_text())
        owner = found["owner"]
        named = OwnerName(*(str(owner[key]) for key in ("apiVersion", "kind", "plural", "name")))
        return WorkersFile(str(found["cluster"]), str(found["namespace"]), named, dict(found["template"]))
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}", remedy="mount the cluster's ConfigMap") from error
    except (ValueError, KeyError, TypeError) as error:
        raise UserError(
            f"{path} does not describe the pods of workers",
            remedy="let `headrace cluster start --target kubernetes` write it",
        ) from error


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
            # an answer was lost: ids are used once, so a pod of this cluster is the same pod
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
