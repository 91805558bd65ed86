"""What the brokers' answers mean, row by row of what Kafka 4.3.1 was seen to answer."""

from __future__ import annotations

import pytest

from headrace_connectors.kafka.clients.transaction_names import names_of
from headrace_connectors.kafka.transactions.rules import (
    Answer,
    Described,
    Description,
    Fate,
    Identity,
    Undescribed,
    answer_to,
    fate,
    ours,
    refusal,
    successor,
    swept,
)

OURS = Identity(producer_id=7, producer_epoch=3, started_at_ms=1000)


def described(state: str, producer_id: int = 7, producer_epoch: int = 3, started_at_ms: int = 1000) -> Described:
    return Described("headrace-j-out-1-0-0", state, producer_id, producer_epoch, started_at_ms, 60_000, {"t": (0, 1)})


@pytest.mark.parametrize(
    ("code", "answer"),
    [
        (0, Answer.DONE),
        (51, Answer.RETRY),  # concurrent transactions: prepared, or the one before is not out yet
        (14, Answer.RETRY),  # coordinator loads
        (15, Answer.RETRY),  # coordinator not available
        (16, Answer.RETRY),  # not the coordinator
        (13, Answer.RETRY),  # no connection
        (7, Answer.RETRY),  # timed out
        (56, Answer.RETRY),  # a disk failed: its leader moves
        (-1, Answer.RETRY),  # unknown server error
        (90, Answer.LOOK),  # producer fenced (v2 to v4)
        (47, Answer.LOOK),  # invalid producer epoch (v1)
        (49, Answer.LOOK),  # invalid producer id mapping
        (48, Answer.LOOK),  # invalid transaction state
        (53, Answer.DENIED),
        (31, Answer.DENIED),
        (42, Answer.UNKNOWN),
    ],
)
def test_error_codes(code: int, answer: Answer) -> None:
    assert answer_to(code) is answer


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (described("Ongoing"), None),
        (Described("n", "Ongoing", 7, 3, 1000, 60_000, {"another": (0,)}), "no record of topic 't' that"),
        (described("PrepareCommit"), "committed it already"),
        (described("CompleteCommit"), "committed it already"),
        (described("PrepareAbort"), "longer than transaction_timeout (60000 ms)"),
        (described("CompleteAbort"), "longer than transaction_timeout (60000 ms)"),
        (described("PrepareEpochFence"), "aborted it"),
        (described("Empty"), "fenced"),
        (described("Dead"), "does not know this state"),
        (Undescribed("n", 105), "does not know its name"),
    ],
)
def test_before_the_decision(found: Description, said: str | None) -> None:
    because = refusal(found, "t")
    assert because is None if said is None else said in str(because)


@pytest.mark.parametrize(
    ("found", "became"),
    [
        (described("PrepareCommit"), Fate.COMMITTED),
        (described("CompleteCommit"), Fate.COMMITTED),
        (described("CompleteCommit", started_at_ms=-1), Fate.COMMITTED),
        (described("Ongoing"), Fate.UNDECIDED),
        (described("PrepareAbort"), Fate.LOST),
        (described("CompleteAbort"), Fate.LOST),
        (described("Empty"), Fate.LOST),
        (described("Dead"), Fate.LOST),
        # expired: the broker raises the epoch
        (described("CompleteAbort", producer_epoch=4), Fate.LOST),
        # a later transaction of the same name, committed: not this one
        (described("CompleteCommit", producer_epoch=4), Fate.LOST),
        (described("CompleteCommit", producer_id=8, producer_epoch=0), Fate.LOST),
        (described("CompleteCommit", started_at_ms=2000), Fate.LOST),
        (described("Ongoing", producer_epoch=4), Fate.LOST),
        (described("Ongoing", started_at_ms=2000), Fate.LOST),
        (Undescribed("n", 105), Fate.FORGOTTEN),
    ],
)
def test_after_the_decision(found: Description, became: Fate) -> None:
    assert fate(OURS, found) is became


def test_a_start_that_is_not_known_proves_nothing_against_it() -> None:
    assert fate(Identity(7, 3), described("CompleteCommit")) is Fate.COMMITTED


@pytest.mark.parametrize(
    ("epoch", "following"),
    [(0, ""), (29_999, ""), (30_000, "headrace-j-out-1-0-5"), (32_766, "headrace-j-out-1-0-5")],
)
def test_a_name_is_retired_before_its_epochs_end(epoch: int, following: str) -> None:
    assert successor("headrace-j-out-1-0-1", epoch, retire_epoch=30_000, lanes=4) == following


def test_a_foreign_name_has_no_successor() -> None:
    assert successor("orders-1", 32_000, retire_epoch=30_000, lanes=3) == ""


def test_a_sweep_ends_what_is_of_the_job_and_sink_and_of_an_earlier_attempt() -> None:
    names = [
        str(name)
        for job, sink, attempt in [
            ("a", "out", 1),
            ("a", "out", 65),
            ("a", "out", 2),
            ("a", "out.bad", 2),
            ("a", "other", 2),
            # begins like ours
            ("a-b", "out", 2),
            ("b", "out", 2),
        ]
        for name in names_of(job, sink, attempt, 0, 1)
    ]
    foreign = ["orders-7", "headrace-a", "headrace-a-out-x-0-0"]
    assert swept([*names, *foreign], "a", "out", attempt=3) == ["headrace-a-out-1-0-0", "headrace-a-out-2-0-0"]
    # a coordinator that was replaced does not touch what its successor's attempt has open
    assert swept([*names, *foreign], "a", "out", attempt=1) == []
    assert swept([*names, *foreign], "a", "out", attempt=66) == ["headrace-a-out-1-0-0"]


def test_without_a_job_all_jobs_are_ours() -> None:
    names = ["headrace-a-out-1-0-0", "headrace-b-in-1-0-0", "orders-7"]
    assert list(ours(names, "", "out")) == names[:2]
    assert list(ours(names, "a", "")) == names[:1]
    assert list(ours(names, "b", "out")) == []
