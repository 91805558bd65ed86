"""What a job left open on a real broker, against its journal: committed where decided, else aborted."""

from __future__ import annotations

from pathlib import Path

import pytest

from headrace.coordinator.output.transaction_safety import Phase
from headrace.coordinator.rest.service import JobConflictError
from headrace_dev.broker import EmbeddedBroker
from support.kafka.left_job import DECIDED, JOB, OPEN, Left
from support.kafka.open_transactions import wait_settled
from support.patience import WAIT_SECONDS

pytestmark = [pytest.mark.broker, pytest.mark.turns(3)]


def test_the_decided_one_is_committed_and_the_other_aborted(broker: EmbeddedBroker, tmp_path: Path) -> None:
    left = Left(broker, tmp_path)
    left.decide()
    assert left.look() == {DECIDED: "commit", OPEN: "abort"}

    dry = left.end("commit")
    assert dry.note == "1 transaction would be committed; --yes does it"
    (first,) = [each for each in dry.transactions if each.name == DECIDED]
    assert (first.epoch, first.holds_back, first.attempt, first.subtask) == (4, (f"{left.topic}[0]",), 1, 0)
    assert first.age_ms is not None
    assert left.visible() == []
    with pytest.raises(JobConflictError, match="it is not safe to abort"):
        left.end("abort", names=[DECIDED], yes=True, force=True)
    with pytest.raises(JobConflictError, match="no transaction of that name"):
        left.end("abort", names=["headrace-x"], yes=True)

    done = left.end("commit", yes=True)
    assert {each.name: each.done for each in done.transactions} == {DECIDED: "committed", OPEN: None}
    assert left.held.journal().uncommitted is None
    wait_settled(broker, JOB)
    assert left.look() == {OPEN: "abort"}
    left.end("abort", yes=True)
    assert left.look() == {}
    assert left.visible() == [f"{DECIDED} {number}".encode() for number in range(3)]
    assert left.end("commit", yes=True).note == "nothing is to be committed"


def test_a_decided_one_that_is_gone_is_told_as_lost(broker: EmbeddedBroker, tmp_path: Path) -> None:
    left = Left(broker, tmp_path)
    left.decide()
    left.producers[0].abort_transaction(WAIT_SECONDS)
    done = left.end("commit", yes=True)
    assert "lost 1 transaction" in (done.note or "")
    waiting = left.held.journal().uncommitted
    assert waiting is not None
    left.end("abort", yes=True)


def test_a_job_that_runs_is_looked_at_and_left_alone(broker: EmbeddedBroker, tmp_path: Path) -> None:
    left = Left(broker, tmp_path, Phase.LIVE)
    left.decide()
    assert left.look() == {DECIDED: "leave", OPEN: "leave"}
    with pytest.raises(JobConflictError, match="commits and aborts its transactions itself"):
        left.end("abort", yes=True, force=True)
    left.settle(committed=False)
