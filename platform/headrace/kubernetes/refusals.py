"""The errors that the statuses of an API server become. Pure.

    ApiError                  (ExternalError) the server answered with a failure; retry: 429 and 5xx
    ├── NotFoundError         404: there is no such object
    ├── ConflictError         409: the object has changed, or is not the one that a precondition names
    ├── AlreadyExistsError    409: an object of that name exists
    ├── ExpiredError          410: the version to continue from is too old; list again
    ├── UnauthorizedError     401: the server does not accept the credentials
    └── ForbiddenError        403: a right is missing, which the remedy names, or a quota is exhausted
    RejectedError             (UserError) 400, 422 and other 4xx: the document is invalid

An API server that has just started may answer 403 until it has read the roles, seen for 50 ms.

No answer is `core.errors.UnreachableError`. The server may have executed the request nevertheless.
"""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.kubernetes.documents import Collection, Json, text_at

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
