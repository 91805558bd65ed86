"""The figures of an attempt are those of its slots."""

from __future__ import annotations

from headrace.checkpoint.manifest import FilePart, Manifest, StateHandle
from headrace.coordinator.figures.job_figures import JobFigures, StateSize, state_sizes, stored_states
from headrace.coordinator.figures.slot_series import Rate
from headrace.rpc.figures import (
    NodeStateFigures,
    PartitionFigures,
    SlotFigures,
    SourceFigures,
    StateFigures,
    TimeFigures,
    TransactionFigures,
)
from headrace.rpc.status import SlotStatus


def status(at_ms: int, rows: int, **figures: object) -> SlotStatus:
    return SlotStatus(counters={"s": {"rows_in": rows}}, figures=SlotFigures(at_ms=at_ms, **figures))  # type: ignore[arg-type]


def test_rates_of_slots_add_up() -> None:
    made = JobFigures()
    made.take(0, status(1_000, 100))
    made.take(1, status(2_000, 100))

    assert made.rate(["s"], "rows_in") == Rate(150.0, 150.0)
    assert made.rate(["other"], "rows_in") == Rate(0.0, 0.0)
    assert made.running_ms == 2_000
    assert {subtask: each.rows_in for subtask, each in made.totals("s").items()} == {0: 100, 1: 100}


def test_a_report_without_figures_changes_nothing() -> None:
    made = JobFigures()
    made.take(0, status(1_000, 100))
    made.take(0, SlotStatus(counters={"s": {"rows_in": 999}}))

    assert made.totals("s")[0].rows_in == 100


def test_times_partitions_and_transactions_by_subtask() -> None:
    made = JobFigures()
    spent = TimeFigures(task="t", busy_ms=600, idle_ms=300, backpressured_ms=100)
    behind = SourceFigures(
        source="s", total=1, partitions=(PartitionFigures(topic="in", partition=0, position=5, lag=7),)
    )
    young, old = (TransactionFigures(sink="k", name=name, age_ms=age) for name, age in (("young", 10), ("old", 20)))
    made.take(0, status(1_000, 1, times=(spent,), sources=(behind,), transactions=(young,)))
    made.take(1, status(1_000, 1, transactions=(old,)))

    assert made.times("t") == {0: spent}
    assert made.sources("s") == {0: behind}
    assert made.transactions() == [(1, old), (0, young)]


def manifest(attempt: int) -> Manifest:
    def handle(subtask: int, state: str, size: int, rows: int) -> StateHandle:
        part = FilePart(path=f"{subtask}-{state}", row_groups=(0,), rows=rows, bytes=size, checksum="")
        return StateHandle(
            node="n",
            state=state,
            kind="keyed",
            keys=(),
            subtask=subtask,
            first_group=0,
            last_group=1,
            columns={},
            files=(part,),
        )

    return Manifest(
        kind="checkpoint",
        job="j",
        pipeline="p",
        epoch=1,
        attempt=attempt,
        created_at_ms=0,
        version="",
        plan_hash="",
        max_parallelism=2,
        parallelism={},
        nodes={},
        states=(handle(0, "a", 10, 1), handle(0, "b", 20, 2), handle(1, "a", 5, 3)),
        sources={},
        splits={},
    )


def test_state_sizes_of_a_checkpoint() -> None:
    assert state_sizes(manifest(3), 3) == {"n": {None: StateSize(35, 6), 0: StateSize(30, 3), 1: StateSize(5, 3)}}


def test_subtasks_of_another_attempt_say_nothing_about_those_of_this_one() -> None:
    assert state_sizes(manifest(2), 3) == {"n": {None: StateSize(35, 6)}}
    assert state_sizes(None, 3) == {}


def test_each_state_of_a_checkpoint_and_of_all_slots() -> None:
    assert stored_states(manifest(3)) == {("n", "a"): StateSize(15, 4), ("n", "b"): StateSize(20, 2)}
    assert stored_states(None) == {}

    made = JobFigures()
    for slot in range(2):
        state = NodeStateFigures(node="n", state="a", memory_bytes=10, disk_bytes=slot)
        made.take(slot, status(1_000, 1, states=(state,)))
    assert made.states() == {("n", "a"): StateFigures(memory_bytes=20, disk_bytes=1)}
