"""The Lease of an election, as candidates read and write it, and its owner."""

from __future__ import annotations

import pytest

from headrace.core.errors import UserError
from headrace.kubernetes.documents import Document, Json, metadata_of, value_at
from headrace.leadership.elector import Leader
from headrace.leadership.lease_record import LEADER, OWNER_VARIABLE, LeaseRecord, OwnerOfLease, new_lease

ADDRESS = Leader("http://one:1", "one:2", 3)
FIRST, SECOND = "2026-11-26T10:00:00.000000Z", "2026-11-26T10:00:02.000000Z"


def _stored(document: Document, version: str = "7") -> Document:
    metadata = value_at(document, "metadata")
    assert isinstance(metadata, dict)
    return document | {"metadata": metadata | {"uid": "u", "resourceVersion": version}}


def _spec(document: Document) -> Json:
    return value_at(document, "spec")


def test_a_lease_that_is_created_names_its_holder() -> None:
    record = LeaseRecord.of(_stored(new_lease("leader", "one", 10_000, FIRST)))
    assert (record.holder, record.duration_ms, record.published) == ("one", 10_000, None)
    assert metadata_of(record.document).name == "leader"


def test_a_renewal_changes_the_beat_alone() -> None:
    record = LeaseRecord.of(_stored(new_lease("leader", "one", 10_000, FIRST)))
    renewed = record.held_by("one", 10_000, SECOND)
    assert renewed["metadata"] == record.document["metadata"], "its version is the write's condition"
    assert _spec(renewed) == {
        "holderIdentity": "one",
        "leaseDurationSeconds": 10,
        "acquireTime": FIRST,
        "renewTime": SECOND,
        "leaseTransitions": 0,
    }
    assert LeaseRecord.of(renewed).beat != record.beat


def test_what_others_write_beside_it_is_no_beat_and_stays() -> None:
    record = LeaseRecord.of(_stored(new_lease("leader", "one", 10_000, FIRST)))
    metadata = value_at(record.document, "metadata")
    assert isinstance(metadata, dict)
    noted = record.document | {"metadata": metadata | {"annotations": {"note": "mine"}, "resourceVersion": "8"}}
    annotated = LeaseRecord.of(noted)
    assert annotated.beat == record.beat
    announced = annotated.held_by("one", 10_000, SECOND, ADDRESS)
    assert metadata_of(announced).annotations == {"note": "mine", LEADER: ADDRESS.encoded().decode()}
    assert metadata_of(announced).resource_version == "8"


def test_another_holder_is_a_transition_and_keeps_the_last_leaders_address() -> None:
    held = LeaseRecord.of(_stored(new_lease("leader", "one", 10_000, FIRST, ADDRESS)))
    taken = LeaseRecord.of(_stored(held.held_by("two", 1_500, SECOND)))
    assert (taken.holder, taken.duration_ms) == ("two", 2_000)
    assert value_at(taken.document, "spec", "leaseTransitions") == 1
    assert value_at(taken.document, "spec", "acquireTime") == SECOND
    assert taken.published == ADDRESS.encoded().decode()


def test_a_released_lease_has_no_holder() -> None:
    held = LeaseRecord.of(_stored(new_lease("leader", "one", 10_000, FIRST, ADDRESS)))
    released = LeaseRecord.of(held.released(SECOND))
    assert (released.holder, released.published) == ("", ADDRESS.encoded().decode())
    taken = released.held_by("one", 10_000, SECOND)
    assert value_at(taken, "spec", "leaseTransitions") == 1


def test_a_lease_that_another_program_made_may_have_no_fields() -> None:
    record = LeaseRecord.of({"metadata": {"name": "leader"}})
    assert (record.holder, record.duration_ms, record.published) == ("", None, None)
    taken = LeaseRecord.of(record.held_by("one", 10_000, FIRST))
    assert taken.holder == "one"


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
