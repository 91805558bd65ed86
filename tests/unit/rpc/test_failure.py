"""Errors on their way to people, and back."""

from __future__ import annotations

import pytest

from headrace.core.errors import DataError, ExternalError, HeadraceError, InternalError, UnreachableError, UserError
from headrace.rpc.failure import error_of, failure_of


@pytest.mark.parametrize(
    ("error", "domain", "kind"),
    [
        (UserError("text", remedy="do it"), "user", UserError),
        (DataError("text"), "user", UserError),
        (ExternalError("text", retry=True), "external", ExternalError),
        (UnreachableError("text"), "external", UnreachableError),
        (InternalError("text"), "internal", InternalError),
    ],
)
def test_an_error_comes_back_as_it_was(error: HeadraceError, domain: str, kind: type[HeadraceError]) -> None:
    failure = failure_of(error, node="rows", subtask=2)
    assert (failure.domain, failure.node, failure.subtask) == (domain, "rows", 2)
    again = error_of(failure)
    assert type(again) is kind
    assert (again.message, again.remedy, again.retry) == (error.message, error.remedy, error.retry)


def test_what_nobody_raised_on_purpose_comes_with_its_trace() -> None:
    try:
        dict[str, int]()["missing"]
    except KeyError as error:
        failure = failure_of(error)
    assert (failure.domain, failure.retry, failure.message) == ("internal", True, "KeyError: 'missing'")
    assert "test_failure.py" in (failure.trace or "")
    assert "test_failure.py" in error_of(failure).__notes__[0]


def test_a_system_that_refuses_is_outside() -> None:
    failure = failure_of(PermissionError(13, "Permission denied", "/x"))
    assert (failure.domain, failure.retry, failure.trace) == ("external", True, None)
    assert "/x" in failure.message
