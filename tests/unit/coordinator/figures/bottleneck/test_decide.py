"""From figures to a verdict: each cause is found, and names what it is about."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest

from headrace.coordinator.figures.bottleneck.decide import WINDOW_MIN_MS, decide
from headrace.coordinator.figures.bottleneck.verdict import (
    HeldTime,
    KeepsUp,
    NotRunning,
    SkewedKeys,
    SkewedPartitions,
    SlowCheckpoints,
    SlowFetch,
    SlowNode,
    SlowSink,
    SlowSubtask,
    SmallBatches,
    TooEarly,
    Verdict,
)
from headrace.coordinator.figures.bottleneck.view import (
    CheckpointView,
    KeyShare,
    KeysView,
    LiveView,
    NodeSpent,
    NodeView,
    PartitionView,
    SourceView,
    SubtaskView,
    TaskView,
)
from headrace.coordinator.figures.bottleneck.wording import Report, report
from headrace.coordinator.figures.quiet_partitions import QuietPartition

WINDOW_MS = 10_000
SOURCE = NodeView("events", "source", "kafka")
STEP = NodeView("totals", "aggregate")
SINK = NodeView("out", "sink", "kafka")


def subtask(
    number: int, busy: float, *, backpressured: float = 0.0, rows: int = 100_000, batches: int = 50, **spent_ms: int
) -> SubtaskView:
    """A subtask with the time of its nodes in ms."""
    return SubtaskView(
        number,
        busy,
        max(0.0, 1.0 - busy - backpressured),
        backpressured,
        round(busy * WINDOW_MS),
        rows,
        batches,
        f"worker-{number}",
        {name: NodeSpent(ms) for name, ms in spent_ms.items()},
    )


def source_task(*subtasks: SubtaskView) -> TaskView:
    return TaskView("events", (SOURCE,), subtasks, downstream=("totals",))


def totals_task(*subtasks: SubtaskView, keys: KeysView | None = None) -> TaskView:
    return TaskView("totals", (STEP, SINK), subtasks, upstream=("events",), keys=keys)


def view(
    *tasks: TaskView, sources: tuple[SourceView, ...] = (), checkpoints: tuple[CheckpointView, ...] = ()
) -> LiveView:
    return LiveView(
        "RUNNING",
        running_ms=60_000,
        window_ms=WINDOW_MS,
        tasks=tasks,
        sources=sources or (SourceView("events"),),
        checkpoints=checkpoints,
        interval_ms=10_000,
    )


IDLE = view(source_task(subtask(0, 0.05)), totals_task(subtask(0, 0.1, totals=800)))


def told(of: LiveView) -> Report:
    return report(of, decide(of))


@pytest.mark.parametrize("state", ["SCHEDULING", "RESTARTING", "FAILED", "SUSPENDED"])
def test_a_job_that_does_not_run_has_no_bottleneck(state: str) -> None:
    assert decide(replace(IDLE, state=state, message="waiting for 1 slot")) == NotRunning(state, "waiting for 1 slot")


@pytest.mark.parametrize("window_ms", [0, WINDOW_MIN_MS - 1])
def test_figures_of_less_than_two_seconds_say_nothing(window_ms: int) -> None:
    assert decide(replace(IDLE, window_ms=window_ms, running_ms=900)) == TooEarly(900)
    assert decide(replace(IDLE, tasks=(source_task(), totals_task()))) == TooEarly(60_000)


def test_a_job_whose_subtasks_are_idle_keeps_up() -> None:
    assert decide(IDLE) == KeepsUp("totals", 0.1)
    assert told(IDLE).remedy is None and "keeps up" in told(IDLE).verdict


# ---- a busy task -----------------------------------------------------------------------------------------------------


def test_a_busy_step_is_named_with_its_share() -> None:
    busy = view(source_task(subtask(0, 0.1, backpressured=0.8)), totals_task(subtask(0, 0.98, totals=9_000, out=500)))
    found = decide(busy)
    assert found == SlowNode("totals", "totals", "aggregate", 0.98, 9_000 / 9_800, 1)
    text = told(busy)
    assert "events, which sends to it, waits for room for 80% of its time" in text.evidence
    assert "of that time: totals 92%, out 5%" in text.evidence
    assert text.remedy == "raise `parallelism` of totals (now 1), if the hosts have idle CPUs"


def test_a_busy_source_in_front_of_idle_steps_is_the_bottleneck() -> None:
    busy = view(
        source_task(subtask(0, 0.95, events=9_500)),
        totals_task(subtask(0, 0.3, totals=3_000)),
        sources=(SourceView("events", (PartitionView("t", 0, 0, 900.0, 5_000),), 1),),
    )
    assert decide(busy) == SlowNode("events", "events", "source", 0.95, 1.0, 1)
    assert "totals, which reads from it, waits for rows for 70% of its time" in told(busy).evidence
    assert "(its topics have 1 partitions: add some)" in (told(busy).remedy or "")


def test_the_last_task_that_others_wait_for_is_the_bottleneck() -> None:
    middle = TaskView(
        "middle",
        (NodeView("middle", "map"),),
        (subtask(0, 0.75, backpressured=0.25, middle=7_500),),
        upstream=("events",),
        downstream=("totals",),
    )
    last = replace(totals_task(subtask(0, 0.8, totals=8_000)), upstream=("middle",))
    chain = view(source_task(subtask(0, 0.2, backpressured=0.8)), middle, last)
    assert decide(chain) == SlowNode("totals", "totals", "aggregate", 0.8, 1.0, 1)


def test_a_task_that_works_in_bursts_is_found_by_the_waits_of_its_senders() -> None:
    bursts = view(source_task(subtask(0, 0.2, backpressured=0.4)), totals_task(subtask(0, 0.5, totals=5_000)))
    assert decide(bursts) == SlowNode("totals", "totals", "aggregate", 0.5, 1.0, 1)


def test_a_sink_that_takes_most_of_the_time_is_slow() -> None:
    spent = {"totals": NodeSpent(1_000), "out": NodeSpent(8_500, write_ms=6_000, flush_ms=2_000)}
    busy = replace(subtask(0, 0.95), spent=spent)
    slow = view(source_task(subtask(0, 0.0, backpressured=0.9)), totals_task(busy))
    assert decide(slow) == SlowSink("totals", "out", "kafka", 0.95, 8_500 / 9_500, 6_000 / 9_500, 2_000 / 9_500)
    assert "linger.ms" in (told(slow).remedy or "") and told(slow).node == "out"


def test_a_sink_inside_of_one_long_write_is_slow() -> None:
    """The call has not returned, so only the time of the writer knows of it."""
    busy = replace(subtask(0, 1.0), spent={"out": NodeSpent(0, write_ms=9_900)})
    assert isinstance(decide(view(source_task(subtask(0, 0.0)), totals_task(busy))), SlowSink)


def test_a_sink_that_flushes_most_of_the_time_is_told_about_checkpoints() -> None:
    busy = replace(subtask(0, 0.9), spent={"out": NodeSpent(8_000, write_ms=500, flush_ms=7_000)})
    slow = replace(view(source_task(subtask(0, 0.0)), totals_task(busy)), oldest_transaction_ms=31_000)
    assert "checkpoint: {interval" in (told(slow).remedy or "")
    assert "the oldest open transaction has lasted 31.0 s" in told(slow).evidence


def test_many_small_batches_are_named() -> None:
    busy = subtask(0, 0.9, rows=50_000, batches=5_000, totals=8_000)
    small = view(source_task(subtask(0, 0.3)), totals_task(busy))
    assert decide(small) == SmallBatches("totals", "totals", 0.9, 10.0)
    assert "max_delay" in (told(small).remedy or "")


def test_few_rows_that_take_long_are_no_small_batches() -> None:
    slow = subtask(0, 0.9, rows=900, batches=90, totals=8_900)
    assert isinstance(decide(view(source_task(subtask(0, 0.1)), totals_task(slow))), SlowNode)


# ---- skew ------------------------------------------------------------------------------------------------------------

KEYS = KeysView(
    ("customer",),
    (KeyShare(17, 0, 0.62, "big"), KeyShare(90, 1, 0.04, "c3")),
    (KeyShare(17, 0, 0.65), KeyShare(90, 1, 0.05)),
)
UNEVEN = (
    subtask(0, 0.97, rows=90_000, totals=9_000),
    subtask(1, 0.1, rows=9_000, totals=900),
    subtask(2, 0.12, rows=11_000, totals=900),
)


def test_a_heavy_key_is_named_with_its_share_and_group() -> None:
    skewed = view(source_task(subtask(0, 0.2, backpressured=0.7)), totals_task(*UNEVEN, keys=KEYS))
    found = decide(skewed)
    assert found == SkewedKeys("totals", "totals", 0, 0.97, 0.11, 9.0, KEYS.keys[0], ("customer",))
    text = told(skewed)
    assert (text.kind, text.node, text.subtask, text.key) == ("skewed-keys", "totals", 0, "big")
    assert "key customer = big has 62% of the rows" in text.verdict
    assert "salt" in (text.remedy or "")
    assert any("c3 4% (group 90, subtask 1)" in line for line in text.evidence)


def test_a_heavy_group_of_many_keys_is_named_instead() -> None:
    keys = KeysView(("customer",), (KeyShare(17, 0, 0.03, "c1"),), (KeyShare(17, 0, 0.5),))
    skewed = view(source_task(subtask(0, 0.2)), totals_task(*UNEVEN, keys=keys))
    assert decide(skewed) == SkewedKeys("totals", "totals", 0, 0.97, 0.11, 9.0, keys.groups[0], ("customer",))
    assert "key group 17 has 50% of the rows" in told(skewed).verdict and told(skewed).key is None


def test_skew_without_a_heavy_key_is_skew_all_the_same() -> None:
    skewed = view(source_task(subtask(0, 0.2)), totals_task(*UNEVEN))
    found = decide(skewed)
    assert isinstance(found, SkewedKeys) and found.heavy is None
    assert "spread unevenly" in told(skewed).verdict


def test_a_heavy_key_of_another_subtask_does_not_explain_this_one() -> None:
    keys = KeysView(("customer",), (KeyShare(90, 1, 0.4, "c3"),), ())
    found = decide(view(source_task(subtask(0, 0.2)), totals_task(*UNEVEN, keys=keys)))
    assert isinstance(found, SkewedKeys) and found.heavy is None


def test_others_without_a_row_have_no_ratio() -> None:
    alone = (UNEVEN[0], subtask(1, 0.0, rows=0))
    found = decide(view(source_task(subtask(0, 0.2)), totals_task(*alone, keys=KEYS)))
    assert isinstance(found, SkewedKeys) and found.rows_ratio is None


def test_evenly_busy_subtasks_are_not_skewed_by_a_heavy_key() -> None:
    even = (subtask(0, 0.9, totals=8_000), subtask(1, 0.85, totals=8_000))
    assert isinstance(decide(view(source_task(subtask(0, 0.2)), totals_task(*even, keys=KEYS))), SlowNode)


def test_a_subtask_with_no_more_rows_than_others_is_slow_itself() -> None:
    uneven = (subtask(0, 0.3, rows=100_000), subtask(1, 0.95, rows=110_000), subtask(2, 0.25, rows=90_000))
    slow = view(source_task(subtask(0, 0.2)), totals_task(*uneven))
    assert decide(slow) == SlowSubtask("totals", 1, "worker-1", 0.95, 0.275)
    assert "look at worker worker-1" in (told(slow).remedy or "")


def test_a_partition_with_most_of_the_rows_is_named() -> None:
    partitions = (PartitionView("t", 0, 0, 50.0, 0), PartitionView("t", 1, 1, 90_000.0, 4_000_000))
    skewed = view(
        source_task(subtask(0, 0.1, rows=500), subtask(1, 0.99, rows=900_000)),
        totals_task(subtask(0, 0.3)),
        sources=(SourceView("events", partitions, 2, rows_per_s=90_050.0),),
    )
    assert decide(skewed) == SkewedPartitions("events", 1, 0.99, 0.1, partitions[1])
    assert "partition 1 of t" in told(skewed).verdict and "more partitions" in (told(skewed).remedy or "")
    assert any("t-1: 4,000,000 at 90,000/s" in line for line in told(skewed).evidence)


# ---- no busy task ----------------------------------------------------------------------------------------------------

QUIET = QuietPartition("t", 3, 45_000, 44_000)


@pytest.mark.parametrize(("idle_after", "remedy"), [(False, "idle_after: 30s"), (True, "lower it")])
def test_a_quiet_partition_holds_time_back(*, idle_after: bool, remedy: str) -> None:
    held = replace(
        IDLE, sources=(SourceView("events", quiet=(QUIET, replace(QUIET, partition=4)), idle_after=idle_after),)
    )
    assert decide(held) == HeldTime("events", QUIET, 1, idle_after)
    assert "partition 3 of t holds time back: no row of it for 45.0 s" in told(held).verdict
    assert remedy in (told(held).remedy or "") and (told(held).topic, told(held).partition) == ("t", 3)


def test_a_quiet_partition_without_a_row_is_named_too() -> None:
    held = replace(IDLE, sources=(SourceView("events", quiet=(replace(QUIET, behind_ms=None),)),))
    assert any("it has had no row" in line for line in told(held).evidence)


def test_the_input_that_a_quiet_partition_holds_back_is_named() -> None:
    held = replace(IDLE, sources=(SourceView("events", quiet=(QUIET,), holds="input 1 of named"),))
    assert "partition 3 of t holds time back at input 1 of named: no row of it" in told(held).verdict


def test_a_busy_task_goes_before_a_quiet_partition() -> None:
    busy = view(source_task(subtask(0, 0.2)), totals_task(subtask(0, 0.9, totals=9_000)))
    assert isinstance(decide(replace(busy, sources=(SourceView("events", quiet=(QUIET,)),))), SlowNode)


def checkpoints(took_ms: int, interval_ms: int, count: int = 5, *, aligned_ms: int = 0) -> tuple[CheckpointView, ...]:
    return tuple(
        CheckpointView(took_ms, (count - n) * interval_ms, aligned_ms, 1_000, "totals-0", took_ms) for n in range(count)
    )


def test_checkpoints_that_take_most_of_the_time_are_named() -> None:
    slow = replace(IDLE, checkpoints=checkpoints(9_000, 10_000))
    assert decide(slow) == SlowCheckpoints(0.9, 9_000, 10_000)
    assert "faster checkpoint storage" in (told(slow).remedy or "")
    aligned = replace(IDLE, checkpoints=checkpoints(9_000, 10_000, aligned_ms=8_000))
    assert "barriers wait for each other" in (told(aligned).remedy or "")


@pytest.mark.parametrize(
    "some",
    [checkpoints(900, 1_000), checkpoints(5_000, 10_000), checkpoints(9_000, 10_000, count=1), ()],
    ids=["short", "half of the time", "one", "none"],
)
def test_other_checkpoints_are_no_cause(some: tuple[CheckpointView, ...]) -> None:
    assert isinstance(decide(replace(IDLE, checkpoints=some)), KeepsUp)


def test_a_source_that_is_behind_while_all_wait_fetches_slowly() -> None:
    partitions = (PartitionView("t", 0, 0, 10.0, 50), PartitionView("t", 1, 0, 90.0, 700))
    slow = replace(IDLE, sources=(SourceView("events", partitions, 2, rows_per_s=100.0),))
    assert decide(slow) == SlowFetch("events", 750, partitions[1], has_drift=False)
    assert "fetch.max.bytes" in (told(slow).remedy or "")
    drift = replace(IDLE, sources=(SourceView("events", partitions, 2, rows_per_s=100.0, has_drift=True),))
    assert "max_drift" in (told(drift).remedy or "")


def test_a_lag_of_less_than_some_seconds_is_no_cause() -> None:
    partitions = (PartitionView("t", 0, 0, 1_000.0, 4_000),)
    assert isinstance(
        decide(replace(IDLE, sources=(SourceView("events", partitions, 1, rows_per_s=1_000.0),))), KeepsUp
    )


def test_the_cases_cover_every_verdict() -> None:
    """A verdict that is added needs a case here, and a name of its own for programs."""
    cases: list[tuple[Verdict, LiveView]] = [
        (decide(each), each)
        for each in (
            replace(IDLE, state="FAILED"),
            replace(IDLE, window_ms=0),
            IDLE,
            view(source_task(subtask(0, 0.2)), totals_task(*UNEVEN, keys=KEYS)),
            view(source_task(subtask(0, 0.1, rows=5), subtask(1, 0.9)), totals_task(subtask(0, 0.1))),
            view(source_task(subtask(0, 0.2)), totals_task(subtask(0, 0.2), subtask(1, 0.9), subtask(2, 0.3))),
            view(source_task(subtask(0, 0.2)), totals_task(subtask(0, 0.9, out=9_000))),
            view(source_task(subtask(0, 0.2)), totals_task(subtask(0, 0.9, rows=10, batches=9_000))),
            view(source_task(subtask(0, 0.2)), totals_task(subtask(0, 0.9, totals=9_000))),
            replace(IDLE, sources=(SourceView("events", quiet=(QUIET,)),)),
            replace(IDLE, checkpoints=checkpoints(9_000, 10_000)),
            replace(IDLE, sources=(SourceView("events", (PartitionView("t", 0, 0, 0.0, 9),), 1),)),
        )
    ]
    assert {type(found) for found, _ in cases} == set(get_args(Verdict))
    kinds = [report(seen, found).kind for found, seen in cases]
    assert len(set(kinds)) == len(kinds)
