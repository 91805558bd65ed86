"""The ledger: jobs follow from records, one of two writers is replaced, late records count for nothing."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.coordinator.job.history import JobHistory
from headrace.coordinator.ledger.ledger import (
    TRIGGERS_MAX,
    Ledger,
    LedgerCorruptError,
    LedgerReplaced,
    Settled,
    Written,
)
from headrace.coordinator.ledger.records import (
    ApplicationEnded,
    Change,
    Discarded,
    Ended,
    EndWithdrawn,
    Forgotten,
    HistoryKept,
    Identified,
    JobChange,
    JobResult,
    LedgerJob,
    LedgerRecord,
    Submitted,
    TriggerKept,
)

RESULT = JobResult(state="FINISHED", ended_at_ms=7)
JOBS = st.sampled_from(["a", "b", "c"])
CHANGES: st.SearchStrategy[JobChange] = st.one_of(
    st.builds(Submitted, job=JOBS, sealed=st.just("x")),
    st.builds(Discarded, job=JOBS),
    st.builds(HistoryKept, job=JOBS, history=st.builds(JobHistory, changes=st.integers(0, 3))),
    st.builds(Ended, job=JOBS, result=st.just(RESULT)),
    st.builds(EndWithdrawn, job=JOBS),
    st.builds(Forgotten, job=JOBS),
)


def record(number: int, *changes: Change, writer: str = "w") -> LedgerRecord:
    return LedgerRecord(number=number, writer=writer, at_ms=0, changes=changes)


def expected(changes: list[JobChange]) -> dict[str, tuple[int, bool]]:
    """Job -> changes of its history, whether it has ended."""
    jobs: dict[str, tuple[int, bool]] = {}
    for change in changes:
        known = jobs.get(change.job)
        match change:
            case Submitted():
                jobs[change.job] = known or (0, False)
            case Discarded() | Forgotten():
                jobs.pop(change.job, None)
            case HistoryKept(history=history) if known:
                jobs[change.job] = (max(known[0], history.changes), known[1])
            case Ended() if known:
                jobs[change.job] = (known[0], True)
            case EndWithdrawn() if known:
                jobs[change.job] = (known[0], False)
            case _:
                pass
    return jobs


@given(st.lists(st.lists(CHANGES, max_size=4), max_size=8), st.data())
def test_jobs_follow_from_all_changes_in_order(groups: list[list[JobChange]], data: st.DataObject) -> None:
    records = [record(number + 1, *changes) for number, changes in enumerate(groups)]
    cut = data.draw(st.integers(0, len(records)))
    snapshot = Ledger.load(None, records[:cut]).as_snapshot() if cut else None
    # records that the snapshot contains may be there or not, in any order
    given_records = data.draw(st.permutations(records[data.draw(st.integers(0, cut)) :]))
    ledger = Ledger.load(snapshot, given_records)
    assert ledger.head == len(records)
    found = {job: (each.history.changes, each.result is not None) for job, each in ledger.jobs.items()}
    assert found == expected([change for changes in groups for change in changes])


def test_a_missing_record_is_noticed() -> None:
    with pytest.raises(LedgerCorruptError, match="no record 2, and one with number 3"):
        Ledger.load(None, [record(1), record(3)])
    with pytest.raises(LedgerCorruptError, match="no record 1"):
        Ledger.load(None, [record(2)])


def test_what_was_put_late_below_a_snapshot_counts_for_nothing() -> None:
    snapshot = Ledger.load(None, [record(1, Submitted(job="a", sealed="x"))]).as_snapshot()
    late = record(1, Discarded(job="a"), writer="replaced")
    assert set(Ledger.load(snapshot, [late, record(2)]).jobs) == {"a"}


def test_a_put_is_written_settled_or_evidence_of_another_writer() -> None:
    ledger = Ledger.load(None, [record(1)])
    put = ledger.next([Discarded(job="a")], "w", 5)
    assert put == record(2, Discarded(job="a")).model_copy(update={"at_ms": 5})
    assert isinstance(ledger.on_put(put, None, ()), Written)
    # an earlier put of the same changes, whose response was lost
    assert ledger.on_put(put, put.model_copy(update={"at_ms": 4}), ()) == Written(ledger.with_record(put))
    earlier = record(2, Submitted(job="b", sealed="x"))
    assert ledger.on_put(put, earlier, ()) == Settled(ledger.with_record(earlier))
    assert ledger.on_put(put, record(2, writer="other"), ()) == LedgerReplaced(2, "other")
    assert ledger.on_put(put, None, (7, 3)) == LedgerReplaced(7)
    assert ledger.on_put(put, put, (3,)) == LedgerReplaced(3)
    assert isinstance(ledger.on_put(put, None, (1, 2)), Written)


def test_a_snapshot_keeps_the_order_of_submissions() -> None:
    ledger = Ledger.load(None, [record(1, *(Submitted(job=job, sealed="x") for job in "cab"))])
    assert ledger.as_snapshot().jobs == tuple(LedgerJob(job=job, sealed="x") for job in "cab")


def test_the_last_identity_counts_and_a_snapshot_has_it() -> None:
    first, last = Identified(cluster="c"), Identified(cluster="c", tokens="sealed")
    ledger = Ledger.load(None, [record(1, first), record(2, Submitted(job="a", sealed="x"), last)])
    assert (ledger.identity, set(ledger.jobs)) == (last, {"a"})
    assert Ledger.load(ledger.as_snapshot(), [record(3)]).identity == last


def trigger(name: str, status: str = "in-progress", job: str = "a") -> TriggerKept:
    document = {"trigger": name, "job": job, "operation": "stop", "status": status}
    return TriggerKept.model_validate(document)


def triggers_of(*changes: Change) -> dict[str, str]:
    ledger = Ledger.load(None, [record(1, Submitted(job="a", sealed="x"), *changes)])
    again = Ledger.load(ledger.as_snapshot(), [])
    assert again.triggers == ledger.triggers
    return {name: each.status for name, each in again.triggers.items()}


def test_the_end_of_an_operation_stays_whatever_is_written_last() -> None:
    for order in permutations([trigger("t"), trigger("t", "completed")]):
        assert triggers_of(*order) == {"t": "completed"}
    assert triggers_of(trigger("t", "completed"), trigger("t", "failed")) == {"t": "completed"}


def test_operations_that_have_ended_are_bounded_and_those_in_progress_stay() -> None:
    ended = [trigger(f"t{number}", "failed") for number in range(TRIGGERS_MAX + 2)]
    kept = triggers_of(trigger("open"), *ended)
    assert list(kept) == ["open", *(each.trigger for each in ended[2:])]


def test_a_job_that_is_gone_has_no_operations() -> None:
    assert triggers_of(trigger("t", job="b")) == {}
    assert triggers_of(trigger("t"), Forgotten(job="a")) == {}


def test_an_application_ends_once() -> None:
    ledger = Ledger.load(None, [record(1, ApplicationEnded(exit_code=3)), record(2, ApplicationEnded(exit_code=0))])
    assert ledger.application_exit_code == 3
    assert Ledger.load(ledger.as_snapshot(), []).application_exit_code == 3
    assert Ledger().application_exit_code is None
