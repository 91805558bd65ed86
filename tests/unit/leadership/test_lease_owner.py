"""The object to which the Lease of an election belongs."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.leadership.lease_owner import OWNER_VARIABLE, OwnerOfLease


@pytest.mark.parametrize("owner", [OwnerOfLease("apps/v1", "deployments", "flights"), OwnerOfLease("v1", "pods", "p")])
def test_is_named_by_a_variable(owner: OwnerOfLease) -> None:
    assert OwnerOfLease.of({OWNER_VARIABLE: owner.text}) == owner


def test_may_be_nobody() -> None:
    assert OwnerOfLease.of({}) is None
    assert OwnerOfLease.of({OWNER_VARIABLE: ""}) is None


@pytest.mark.parametrize("text", ["flights", "deployments/flights", "v1/pods/", "/pods/x"])
def test_what_names_none_is_refused(text: str) -> None:
    with pytest.raises(UserError, match="names no object"):
        OwnerOfLease.of({OWNER_VARIABLE: text})
