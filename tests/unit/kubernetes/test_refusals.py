"""What a status of the API server means for the caller."""

from __future__ import annotations

import pytest

from headrace.core.errors import ExternalError, HeadraceError, UserError
from headrace.kubernetes.documents import Collection, Json
from headrace.kubernetes.refusals import (
    AlreadyExistsError,
    ApiError,
    ConflictError,
    ExpiredError,
    ForbiddenError,
    NotFoundError,
    Operation,
    RejectedError,
    UnauthorizedError,
    refusal,
)

LEASES = Collection("coordination.k8s.io/v1", "leases", "orders")
UPDATE = Operation("update", LEASES, "leader")


def _refused(status: int, answer: Json = None, operation: Operation = UPDATE) -> HeadraceError:
    return refusal(operation, "the Kubernetes API at https://k", status, answer)


@pytest.mark.parametrize(
    ("status", "reason", "kind", "retry"),
    [
        (400, "BadRequest", RejectedError, False),
        (401, "Unauthorized", UnauthorizedError, False),
        (403, "Forbidden", ForbiddenError, False),
        (404, "NotFound", NotFoundError, False),
        (409, "Conflict", ConflictError, True),
        (409, "AlreadyExists", AlreadyExistsError, False),
        (410, "Expired", ExpiredError, True),
        (422, "Invalid", RejectedError, False),
        (429, "TooManyRequests", ApiError, True),
        (500, "InternalError", ApiError, True),
        (503, "ServiceUnavailable", ApiError, True),
        (302, "Found", ApiError, False),
    ],
)
def test_a_status_is_an_error_that_callers_match(
    status: int, reason: str, kind: type[HeadraceError], retry: bool
) -> None:
    error = _refused(status, {"kind": "Status", "reason": reason, "message": f"said {reason}"})
    assert type(error) is kind
    assert error.retry == retry
    assert isinstance(error, UserError if kind is RejectedError else ExternalError)
    if status != 401:
        expected = "the Kubernetes API at https://k refused to update leases/leader in namespace orders"
        assert error.message == f"{expected}: {status} said {reason}"


def test_a_missing_right_is_named() -> None:
    error = _refused(403, {"message": 'leases "leader" is forbidden: User "u" cannot update resource "leases"'})
    assert "User" in error.message
    assert error.remedy == (
        "bind its service account or user to a Role in namespace orders with the rule "
        '{apiGroups: ["coordination.k8s.io"], resources: ["leases"], verbs: ["update"]}'
    )
    log = _refused(403, None, Operation("get", Collection("v1", "pods"), "w", "log"))
    assert log.remedy is not None
    assert log.remedy.endswith('a ClusterRole with the rule {apiGroups: [""], resources: ["pods/log"], verbs: ["get"]}')


def test_a_quota_is_no_missing_right() -> None:
    assert _refused(403, {"message": "exceeded quota: small"}).remedy is None


def test_an_api_that_is_not_served_is_no_missing_object() -> None:
    error = _refused(404, "404 page not found\n")
    assert type(error) is ApiError
    assert "does not serve leases of coordination.k8s.io/v1" in error.message
