"""What may be done with an open transaction: every phase of its job against what its journal names."""

from __future__ import annotations

import pytest

from headrace.checkpoint.manifest import CommittableDocument
from headrace.connect.sink import OpenTransaction
from headrace.coordinator.output.transaction_safety import Action, JobStanding, Phase, judged, planned

IDENTITY = {"producer_id": 7, "producer_epoch": 3}
LATER = {"producer_id": 7, "producer_epoch": 4}


def item(epoch: int = 5) -> CommittableDocument:
    return CommittableDocument(
        sink="out", subtask=0, epoch=epoch, name="t-1", rows=10, payload={"topic": "x", **IDENTITY}
    )


def there(identity: dict[str, int] | None = None, **changes: object) -> OpenTransaction:
    fields: dict[str, object] = {"name": "t-1", "sink": "out", "job": "j", "attempt": 2, "subtask": 0}
    return OpenTransaction(**fields | {"identity": IDENTITY if identity is None else identity} | changes)  # type: ignore[arg-type]


def job(phase: Phase, *, decided: bool = False, committed: bool = False) -> JobStanding:
    return JobStanding(
        phase,
        "STATE",
        attempt=2,
        epoch=5 if decided else None,
        decided=(item(),) if decided else (),
        committed=(item(4),) if committed else (),
    )


@pytest.mark.parametrize(
    ("phase", "decided", "safe", "by_force"),
    [
        (Phase.LIVE, True, Action.LEAVE, Action.LEAVE),
        (Phase.LIVE, False, Action.LEAVE, Action.LEAVE),
        (Phase.SUSPENDED, True, Action.COMMIT, Action.LEAVE),
        (Phase.SUSPENDED, False, Action.LEAVE, Action.ABORT),
        (Phase.ENDED, True, Action.COMMIT, Action.LEAVE),
        (Phase.ENDED, False, Action.ABORT, Action.LEAVE),
        (Phase.UNKNOWN, False, Action.LEAVE, Action.ABORT),
    ],
)
def test_the_table(phase: Phase, decided: bool, safe: Action, by_force: Action) -> None:
    found = judged(there(), job(phase, decided=decided))
    assert (found.safe, found.by_force) == (safe, by_force)
    assert found.epoch == (5 if decided else None)
    assert found.why


@pytest.mark.parametrize("phase", list(Phase))
def test_what_was_decided_is_never_aborted(phase: Phase) -> None:
    found = judged(there(), job(phase, decided=True))
    assert not found.allows(Action.ABORT, force=True)


@pytest.mark.parametrize("phase", [Phase.SUSPENDED, Phase.ENDED])
def test_a_later_transaction_of_a_decided_name_waits_for_the_commit(phase: Phase) -> None:
    found = judged(there(LATER), job(phase, decided=True))
    assert (found.safe, found.by_force) == (Action.LEAVE, Action.LEAVE)
    assert "commit that first" in found.why
    assert judged(there(LATER, name="t-2"), job(Phase.ENDED, decided=True)).safe is Action.ABORT


def test_one_that_nothing_tells_apart_is_not_taken_for_the_decided_one() -> None:
    assert judged(there({}), job(Phase.ENDED, decided=True)).safe is Action.LEAVE


def test_an_open_one_of_a_committed_checkpoint_is_committed_again() -> None:
    found = judged(there(), job(Phase.ENDED, committed=True))
    assert (found.safe, found.epoch) == (Action.COMMIT, 4)
    assert judged(there(LATER), job(Phase.ENDED, committed=True)).safe is Action.ABORT


@pytest.mark.parametrize("phase", list(Phase))
def test_one_that_is_ending_is_left(phase: Phase) -> None:
    assert judged(there(ending=True), job(phase, decided=True)).safe is Action.LEAVE


@pytest.mark.parametrize(("attempt", "earlier"), [(1, True), (2, False), (66, False), (65, True)])
def test_what_an_earlier_attempt_left_is_told(attempt: int, earlier: bool) -> None:
    assert ("earlier attempt" in judged(there(attempt=attempt), job(Phase.LIVE)).why) is earlier


def test_a_plan_refuses_what_was_named_and_passes_over_the_rest() -> None:
    may, must_not = there(name="a"), there(name="b")
    found = [(may, judged(may, job(Phase.ENDED))), (must_not, judged(must_not, job(Phase.LIVE)))]
    every = planned(Action.ABORT, found, (), force=False)
    assert (every.names, every.refused) == ({"out": ("a",)}, (must_not,))
    named = planned(Action.ABORT, found, ("b",), force=True)
    assert (named.chosen, named.refused) == ((), (must_not,))
    assert planned(Action.COMMIT, found, ("a",), force=True).chosen == ()
