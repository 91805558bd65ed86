"""A failure that repeats without progress ends the job. Outages: the stories `poison*` in tests/transcripts."""

from __future__ import annotations

import hypothesis.strategies as st
import pytest
from hypothesis import given

from headrace.coordinator.job.job import KINDS_MAX, Position, RepeatedFailures
from headrace.coordinator.job.restart import STABLE_MS
from headrace.core.errors import Domain
from headrace.rpc.messages import Failure
from support.suite.properties import weighted

AT = frozenset({Position("flights", "flights", 0, 17), Position("flights", "flights", 1, 4)})
FURTHER = frozenset({Position("flights", "flights", 0, 18), Position("flights", "flights", 1, 4)})
PANIC = Failure("PanicException: index out of bounds", Domain.INTERNAL, retry=True, node="per_day")


def test_the_third_failure_ends_the_job() -> None:
    repeated = RepeatedFailures(3)
    assert repeated.on_failure(PANIC, AT, 0) is None
    assert repeated.on_failure(PANIC, AT, 1) is None
    told = repeated.on_failure(PANIC, AT, 2)
    assert told is not None
    assert told.message == (
        "the same failure 3 times without progress, each time after flights[0] offset 17, flights[1] offset 4: "
        "PanicException: index out of bounds"
    )
    assert told.remedy is not None
    assert "poison_after: off" in told.remedy
    assert (told.node, told.domain, told.retry) == ("per_day", Domain.INTERNAL, False)


def test_many_partitions_are_named_in_part() -> None:
    positions = frozenset(Position("s", "t", partition, 0) for partition in range(6))
    told = RepeatedFailures(1).on_failure(PANIC, positions, 0)
    assert told is not None
    assert "t[3] offset 0 and 2 more: Panic" in told.message


@pytest.mark.parametrize(
    "texts",
    [
        (
            "slot a: killed by signal 11 (SIGSEGV); see /tmp/a/3.log",
            "slot b: killed by signal 11 (SIGSEGV); see /b",
        ),
        ("RuntimeError: <f at 0x7f01>", "RuntimeError: <f at 0x80aa>"),
        ("RuntimeError: a\nin one place", "RuntimeError: a\nin another"),
    ],
)
def test_names_and_addresses_make_no_other_failure(texts: tuple[str, str]) -> None:
    repeated = RepeatedFailures(2)
    first, second = (Failure(text, Domain.INTERNAL, retry=True) for text in texts)
    assert repeated.on_failure(first, AT, 0) is None
    assert repeated.on_failure(second, AT, 1) is not None


def test_progress_ends_the_count() -> None:
    repeated = RepeatedFailures(2)
    repeated.on_checkpoint(AT, 0)
    assert repeated.on_failure(PANIC, AT, 1) is None
    repeated.on_checkpoint(FURTHER, 2)
    assert repeated.on_failure(PANIC, FURTHER, 3) is None


def test_a_checkpoint_that_only_the_next_attempt_commits_is_progress() -> None:
    """An attempt that fails between record and commit does not report it."""
    repeated = RepeatedFailures(3)
    repeated.on_checkpoint(AT, 0)
    assert repeated.on_failure(PANIC, AT, 1) is None
    assert repeated.on_failure(PANIC, AT, 2) is None
    assert repeated.on_failure(PANIC, FURTHER, 3) is None
    assert repeated.on_failure(PANIC, FURTHER, 4) is None
    assert repeated.on_failure(PANIC, FURTHER, 5) is not None


def test_a_new_partition_is_no_progress() -> None:
    repeated = RepeatedFailures(2)
    assert repeated.on_failure(PANIC, AT, 0) is None
    assert repeated.on_failure(PANIC, AT | {Position("flights", "flights", 2, 0)}, 1) is not None


def test_a_checkpoint_that_has_not_moved_proves_nothing_at_once() -> None:
    repeated = RepeatedFailures(3)
    repeated.on_checkpoint(AT, 0)
    assert repeated.on_failure(PANIC, AT, 1_000) is None
    repeated.on_checkpoint(AT, 2_000)
    assert repeated.on_failure(PANIC, AT, 3_000) is None
    repeated.on_checkpoint(AT, 3_000 + STABLE_MS)
    assert repeated.on_failure(PANIC, AT, 9_000_000) is None, "it ran for ten minutes: no row did that"


def test_off_counts_nothing() -> None:
    repeated = RepeatedFailures(None)
    assert [repeated.on_failure(PANIC, AT, 0) for _ in range(9)] == [None] * 9


@weighted(2)
@given(
    after=st.integers(1, 4),
    kinds=st.lists(st.sampled_from(["a", "b", "move"]), max_size=30),
)
def test_it_ends_with_the_nth_of_a_kind_since_the_job_moved(after: int, kinds: list[str]) -> None:
    repeated, counts, position = RepeatedFailures(after), {"a": 0, "b": 0}, 0
    for kind in kinds:
        at = frozenset({Position("s", "t", 0, position)})
        if kind == "move":
            position += 1
            repeated.on_checkpoint(frozenset({Position("s", "t", 0, position)}), 0)
            counts = {"a": 0, "b": 0}
        else:
            counts[kind] += 1
            told = repeated.on_failure(Failure(kind, Domain.INTERNAL, retry=True), at, 0)
            assert (told is not None) == (counts[kind] >= after)


def test_so_many_kinds_are_remembered() -> None:
    repeated = RepeatedFailures(2)
    for number in range(KINDS_MAX + 1):
        letters = "x" * (number + 1)
        assert repeated.on_failure(Failure(letters, Domain.INTERNAL, retry=True), AT, 0) is None
    assert repeated.on_failure(Failure("x", Domain.INTERNAL, retry=True), AT, 0) is None, "the first is forgotten"
    assert repeated.on_failure(Failure("xxx", Domain.INTERNAL, retry=True), AT, 0) is not None
