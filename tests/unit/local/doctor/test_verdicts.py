"""Verdicts on this host, its home, storage and the cluster."""

from __future__ import annotations

from dataclasses import replace

import pytest

from headrace.connect.access import Status
from headrace.local.doctor import verdicts
from headrace.local.doctor.verdicts import CoordinatorFacts, HomeFacts, StorageFacts

HOME = HomeFacts("/home/h", None, 10**11)
COORDINATOR = CoordinatorFacts("http://c", "1.0", "1.0", 0.3, 0.5)


def test_a_home_that_cannot_be_written_is_a_failure_with_a_remedy() -> None:
    (found,) = verdicts.home(replace(HOME, failure="Permission denied"))
    assert (found.status, found.text) == (Status.FAILED, "it cannot be written: Permission denied")
    assert "HEADRACE_HOME" in (found.remedy or "")


def test_little_space_and_runs_that_were_left_are_warnings() -> None:
    assert [each.status for each in verdicts.home(HOME)] == [Status.OK, Status.OK]
    space, runs = verdicts.home(replace(HOME, free_bytes=10**8, unfinished=["a", "b"]))
    assert (space.status, runs.status) == (Status.WARNING, Status.WARNING)
    assert "2 runs kept state and can be resumed: a, b" in runs.text


@pytest.mark.parametrize(
    ("facts", "status"),
    [
        (StorageFacts("s3://b"), Status.OK),
        (StorageFacts("s3://b", "write failed: no", "ask"), Status.FAILED),
        (StorageFacts("s3://b", replaces=True), Status.FAILED),
    ],
)
def test_storage(facts: StorageFacts, status: Status) -> None:
    assert verdicts.storage(facts).status is status


@pytest.mark.parametrize(
    ("offset_s", "uncertainty_s", "status"),
    [
        (0.3, 0.5, Status.OK),
        (-30.0, 0.5, Status.WARNING),
        # the answer itself took a minute: nothing is known
        (-30.0, 60.0, Status.OK),
        (None, 0.0, Status.UNCHECKED),
    ],
)
def test_the_clock_of_a_coordinator(offset_s: float | None, uncertainty_s: float, status: Status) -> None:
    _, clock = verdicts.coordinator(replace(COORDINATOR, offset_s=offset_s, uncertainty_s=uncertainty_s))
    assert clock.status is status


def test_another_version_is_a_warning() -> None:
    same, _ = verdicts.coordinator(COORDINATOR)
    other, _ = verdicts.coordinator(replace(COORDINATOR, version="0.9"))
    assert (same.status, other.status) == (Status.OK, Status.WARNING)


def test_what_only_some_commands_need_is_no_failure() -> None:
    assert verdicts.java(None, "no Java 17", "install one").status is Status.WARNING
    assert "not installed: s3" in verdicts.extras({"sql": True, "s3": False}).text
    assert verdicts.kernels(None, switched_on=False).status is Status.WARNING
    assert verdicts.kernels("no library", switched_on=True).status is Status.WARNING
    assert verdicts.kernels(None, switched_on=True).status is Status.OK
