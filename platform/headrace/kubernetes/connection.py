"""Requests to the API server of a Kubernetes cluster.

    pods = Collection("v1", "pods", connection.namespace)
    pod = connection.create(pods, {"metadata": {"name": "worker-1"}, "spec": ..})
    connection.delete(pods, "worker-1", uid=metadata_of(pod).uid)

Each request is sent once and ends within its time limit (`timeout_s`): with its result, or with an error below or
`core.errors.UnreachableError`. After the latter the server may have done what was asked.

    ApiError                  (ExternalError) the server answered with a failure; retry: 429 and 5xx
    ├── NotFoundError         404: there is no such object
    ├── ConflictError         409: the object has changed, or is not the one that a precondition names
    ├── AlreadyExistsError    409: an object of that name exists
    ├── ExpiredError          410: the version to continue from is too old; list again
    ├── UnauthorizedError     401: the server does not accept the credentials
    └── ForbiddenError        403: a right is missing, which the remedy names, or a quota is exhausted
    RejectedError             (UserError) 400, 422 and other 4xx: the document is invalid

An API server that has just started may answer 403 until it has read the roles, seen for 50 ms.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from headrace.core.errors import ExternalError, HeadraceError, InternalError, UserError
from headrace.kubernetes.access import Access, find_access
from headrace.kubernetes.documents import (
    Collection,
    Document,
    Json,
    Listing,
    WatchEvent,
    documents_at,
    number_at,
    text_at,
)
from headrace.kubernetes.transport import Answer, LineStream, Request, Transport

_TEXT_MAX = 500
"""Characters of an answer that is no document (a proxy's page) that a message quotes."""


class ApiError(ExternalError):
    """The API server answered with a failure."""


class NotFoundError(ApiError):
    """The object does not exist."""


class ConflictError(ApiError):
    """The object has changed since it was read, or a precondition names another one. Read it again."""


class AlreadyExistsError(ApiError):
    """An object of this name exists."""


class ExpiredError(ApiError):
    """The server does not have the version any more from which to continue. List again."""


class UnauthorizedError(ApiError):
    """The server does not accept the credentials."""


class ForbiddenError(ApiError):
    """The credentials do not include the right, or a quota or policy forbids it."""


class RejectedError(UserError):
    """The request is invalid in itself."""


@dataclass(frozen=True, slots=True)
class Operation:
    """A request, for messages. verb: as in a Role: get, list, watch, create, update, patch, delete."""

    verb: str
    collection: Collection
    name: str | None = None
    subresource: str | None = None

    def __str__(self) -> str:
        part = "" if self.subresource is None else f"{self.subresource} of "
        return f"{self.verb} {part}{self.collection.describe(self.name)}"

    @property
    def right(self) -> str:
        """The rule of a Role that allows it."""
        plural = self.collection.plural
        resource = plural if self.subresource is None else f"{plural}/{self.subresource}"
        rule = f'{{apiGroups: ["{self.collection.group}"], resources: ["{resource}"], verbs: ["{self.verb}"]}}'
        if self.collection.namespace is None:
            return f"a ClusterRole with the rule {rule}"
        return f"a Role in namespace {self.collection.namespace} with the rule {rule}"


def refusal(operation: Operation, place: str, status: int, answer: Json) -> HeadraceError:
    """The error for an answer that is no success. place: the API server; answer: its document, or text."""
    said = text_at(answer, "message") or (answer[:_TEXT_MAX].strip() if isinstance(answer, str) else "")
    reason = text_at(answer, "reason") or ""
    message = f"{place} refused to {operation}: {status} {said or reason}".rstrip()
    match status:
        case 401:
            return UnauthorizedError(
                f"{place} does not accept the credentials",
                remedy="check them with `kubectl auth whoami`; in a pod: its service account and the mounted token",
            )
        case 403:
            return ForbiddenError(message, remedy=_missing_right(operation, said))
        case 404 if not isinstance(answer, dict):
            return ApiError(
                f"{place} does not serve {operation.collection.plural} of {operation.collection.api}",
                remedy="install the custom resource definition, or use a cluster of a version that has this API",
            )
        case 404:
            return NotFoundError(message)
        case 409 if reason == "AlreadyExists":
            return AlreadyExistsError(message)
        case 409:
            return ConflictError(message, retry=True)
        case 410:
            return ExpiredError(message, retry=True)
        case 429 | 408:
            return ApiError(message, retry=True)
        case _ if 400 <= status < 500:
            return RejectedError(message)
        case _:
            return ApiError(message, retry=status >= 500)


def _missing_right(operation: Operation, said: str) -> str | None:
    # quotas, policies and namespaces that are being deleted answer 403, too
    if said and " cannot " not in said:
        return None
    return f"bind its service account or user to {operation.right}"


REQUEST_SECONDS = 15.0
WATCH_SECONDS = 240.0
LOG_SILENCE_SECONDS = 3_600.0
_PAGE = 500
"""Objects that one request of a list returns at most."""
_SPARE_SECONDS = 10.0
"""How much later than the end of a watch, which the server knows, its connection counts as broken."""

Propagation = Literal["Background", "Foreground", "Orphan"]


class Connection:
    """Thread-safe. Raises UserError if the access cannot be read."""

    def __init__(self, access: Access) -> None:
        self._transport = Transport(access)

    @property
    def host(self) -> str:
        """The address of the API server."""
        return self._transport.host

    @property
    def namespace(self) -> str:
        """The namespace of this pod, or of the kubeconfig's context."""
        return self._transport.namespace

    def get(self, collection: Collection, name: str, *, timeout_s: float = REQUEST_SECONDS) -> Document:
        """The object as it is now. Raises NotFoundError."""
        return self._document(Operation("get", collection, name), Request("GET", collection.path(name)), timeout_s)

    def list(
        self,
        collection: Collection,
        *,
        labels: str = "",
        resource_version: str = "",
        timeout_s: float = REQUEST_SECONDS,
    ) -> Listing:
        """All objects of a collection. labels: a selector, `app=orders,role in (a,b)`; resource_version: "0": as any
        server remembers it, which may be late. The time limit holds for each page."""
        operation, items = Operation("list", collection), list[Document]()
        query = _named(labelSelector=labels, resourceVersion=resource_version, limit=str(_PAGE))
        while True:
            page = self._document(operation, Request("GET", collection.path(), query), timeout_s)
            items += documents_at(page, "items")
            more = text_at(page, "metadata", "continue")
            if not more:
                return Listing(tuple(items), text_at(page, "metadata", "resourceVersion") or "")
            query = _named(labelSelector=labels, limit=str(_PAGE)) | {"continue": more}

    def create(
        self,
        collection: Collection,
        document: Mapping[str, object],
        *,
        manager: str = "",
        dry_run: bool = False,
        timeout_s: float = REQUEST_SECONDS,
    ) -> Document:
        """Creates the object, and returns it as stored. Raises AlreadyExistsError. manager: owns its fields."""
        request = Request("POST", collection.path(), _dry(dry_run) | _named(fieldManager=manager), document)
        return self._document(Operation("create", collection), request, timeout_s)

    def replace(
        self,
        collection: Collection,
        name: str,
        document: Mapping[str, object],
        *,
        dry_run: bool = False,
        timeout_s: float = REQUEST_SECONDS,
    ) -> Document:
        """Replaces the whole object. Raises ConflictError if it has another version than `document`, or another uid:
        of two that have read the same version one succeeds. Raises NotFoundError."""
        request = Request("PUT", collection.path(name), _dry(dry_run), document)
        return self._document(Operation("update", collection, name), request, timeout_s)

    def patch(
        self,
        collection: Collection,
        name: str,
        change: Mapping[str, object],
        *,
        subresource: str | None = None,
        timeout_s: float = REQUEST_SECONDS,
    ) -> Document:
        """Merges a change into the object (JSON merge patch; None removes a field). With a `metadata.resourceVersion`
        in it ConflictError is raised if the object has another one. subresource: such as `status`."""
        path = collection.path(name, subresource)
        request = Request("PATCH", path, {}, change, "application/merge-patch+json")
        return self._document(Operation("patch", collection, name, subresource), request, timeout_s)

    def apply(
        self,
        collection: Collection,
        name: str,
        document: Mapping[str, object],
        *,
        manager: str,
        force: bool = True,
        timeout_s: float = REQUEST_SECONDS,
    ) -> Document:
        """Creates the object, or gives it the fields of `document`, which has `apiVersion` and `kind` (server-side
        apply). manager: owns them; fields that it owned and that are missing now are removed. force: owns fields of
        other managers, too; without it they raise ConflictError."""
        query = {"fieldManager": manager, "force": "true" if force else "false"}
        # JSON is YAML
        request = Request("PATCH", collection.path(name), query, document, "application/apply-patch+yaml")
        return self._document(Operation("patch", collection, name), request, timeout_s)

    def delete(
        self,
        collection: Collection,
        name: str,
        *,
        uid: str | None = None,
        resource_version: str | None = None,
        propagation: Propagation | None = None,
        grace_s: int | None = None,
        timeout_s: float = REQUEST_SECONDS,
    ) -> None:
        """Begins the deletion. Raises NotFoundError, and ConflictError if the object has another uid or version.

        propagation: of the deletion to objects that it owns; grace_s: the time in which a pod must end (0: its object
        is deleted at once, and the pod may still run). None: the kind's default.
        """
        conditions = _named(uid=uid or "", resourceVersion=resource_version or "")
        options: dict[str, object] = {"apiVersion": "v1", "kind": "DeleteOptions"}
        if conditions:
            options["preconditions"] = conditions
        if propagation is not None:
            options["propagationPolicy"] = propagation
        if grace_s is not None:
            options["gracePeriodSeconds"] = grace_s
        self._answered(
            Operation("delete", collection, name), Request("DELETE", collection.path(name), {}, options), timeout_s
        )

    def watch(
        self,
        collection: Collection,
        *,
        resource_version: str,
        labels: str = "",
        watch_s: float = WATCH_SECONDS,
        timeout_s: float = REQUEST_SECONDS,
    ) -> Watch:
        """Changes after a version, for `watch_s` seconds; then the caller continues from the last one's version.
        Raises ExpiredError, here or while it is read, if the server does not have that version any more."""
        query = _named(
            watch="true",
            allowWatchBookmarks="true",
            resourceVersion=resource_version,
            labelSelector=labels,
            timeoutSeconds=str(max(1, round(watch_s))),
        )
        operation = Operation("watch", collection)
        lines = self._lines(operation, Request("GET", collection.path(), query), timeout_s, watch_s + _SPARE_SECONDS)
        return Watch(lines, operation, self._place)

    def logs(
        self,
        pods: Collection,
        name: str,
        *,
        container: str = "",
        follow: bool = False,
        previous: bool = False,
        tail_lines: int | None = None,
        silence_s: float = LOG_SILENCE_SECONDS,
        timeout_s: float = REQUEST_SECONDS,
    ) -> LineStream:
        """The lines of a pod's log. follow: goes on until the container ends, or `close`; silence_s: longest time
        without a line before it raises UnreachableError. Raises RejectedError for a container that has not started."""
        query = _named(
            container=container,
            follow="true" if follow else "",
            previous="true" if previous else "",
            tailLines="" if tail_lines is None else str(tail_lines),
        )
        request = Request("GET", pods.path(name, "log"), query)
        return self._lines(Operation("get", pods, name, "log"), request, timeout_s, silence_s)

    def close(self) -> None:
        """Closes connections. Idempotent."""
        self._transport.close()

    @property
    def _place(self) -> str:
        return f"the Kubernetes API at {self.host}"

    def _document(self, operation: Operation, request: Request, timeout_s: float) -> Document:
        answer = self._answered(operation, request, timeout_s)
        if not isinstance(answer, dict):
            raise InternalError(f"{self._place} answered no document to {operation}")
        return answer

    def _answered(self, operation: Operation, request: Request, timeout_s: float) -> Json:
        answer = self._transport.send(request, timeout_s)
        if not 200 <= answer.status < 300:
            raise refusal(operation, self._place, answer.status, answer.content)
        return answer.content

    def _lines(self, operation: Operation, request: Request, timeout_s: float, silence_s: float) -> LineStream:
        lines = self._transport.stream(request, timeout_s, silence_s)
        if isinstance(lines, Answer):
            raise refusal(operation, self._place, lines.status, lines.content)
        return lines


class Watch(Iterator[WatchEvent]):
    """Changes as they happen. One thread reads; any thread may close it, which ends the iteration.

    Raises ExpiredError, and UnreachableError if the connection breaks: continue from the last event's version.
    """

    def __init__(self, lines: LineStream, operation: Operation, place: str) -> None:
        self._lines = lines
        self._operation = operation
        self._place = place

    def __next__(self) -> WatchEvent:
        event: Json = json.loads(next(self._lines))
        kind, document = text_at(event, "type"), event.get("object") if isinstance(event, dict) else None
        if kind is None or not isinstance(document, dict):
            raise InternalError(f"{self._place} sent no event to {self._operation}")
        if kind == "ERROR":
            self.close()
            raise refusal(self._operation, self._place, number_at(document, "code") or 500, document)
        return WatchEvent(kind, document)

    def __enter__(self) -> Watch:
        return self

    def __exit__(self, *_error: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the iteration, and releases the connection. Idempotent."""
        self._lines.close()


def open_connection(
    environment: Mapping[str, str], *, kubeconfig: Path | None = None, context: str | None = None
) -> Connection:
    """A connection with the access that kubectl would use: kubeconfig (argument, KUBECONFIG, ~/.kube/config), else the
    pod's service account. Connects with the first request. Raises UserError, also if the client is not installed."""
    return Connection(find_access(environment, kubeconfig=kubeconfig, context=context))


def _named(**parameters: str) -> dict[str, str]:
    return {name: value for name, value in parameters.items() if value}


def _dry(dry_run: bool) -> dict[str, str]:  # noqa: FBT001 - a value, not a switch
    return {"dryRun": "All"} if dry_run else {}
