"""From the reports of slots to the view of a job."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.coordinator.figures.bottleneck.gather import CHECKPOINTS_LOOKED_AT, JobNow, live_view
from headrace.coordinator.figures.bottleneck.view import NodeSpent, PartitionView
from headrace.coordinator.figures.checkpoint_log import AckedSubtask, CheckpointEntry
from headrace.coordinator.figures.job_figures import JobFigures
from headrace.execution.planning import plan_pipeline
from headrace.rpc.figures import (
    HeavyGroup,
    HeavyKey,
    KeyFigures,
    NodeFigures,
    PartitionFigures,
    SlotFigures,
    SourceFigures,
    TimeFigures,
)
from headrace.rpc.status import SlotStatus

PIPELINE: dict[str, Any] = {
    "name": "gathered",
    "parallelism": 2,
    "checkpoint": {"interval": "10s"},
    "sources": {
        "s": {
            "generator": {"rate": 1, "columns": {"k": {"sequence": {}}}},
            "schema": {"k": "int64", "at": "timestamp not null"},
            "time": {"column": "at"},
        }
    },
    "steps": {"a": {"from": "s", "key_by": ["k"], "window": {"tumbling": "1m"}, "aggregate": {"n": "count(*)"}}},
    "sinks": {"out": {"from": "a", "print": {}, "format": "json"}},
}
PLAN = plan_pipeline(PIPELINE)
NOW = JobNow("RUNNING", "", 3, ("worker-1", "worker-2"))


def test_a_source_has_the_input_by_which_it_reaches_the_nearest_node_with_several() -> None:
    source = PIPELINE["sources"]["s"]
    steps = {
        "kept": {"from": "t", "filter": "k > 0", "parallelism": 1},
        "named": {"union": ["s", "kept"]},
        "twice": {"union": ["named", "u"]},
        "a": {**PIPELINE["steps"]["a"], "from": "twice"},
    }
    joined = plan_pipeline({**PIPELINE, "sources": dict.fromkeys("stu", source), "steps": steps})
    view = live_view(joined, JobFigures(), (), now=NOW)
    assert {each.source: each.holds for each in view.sources} == {
        "s": "input 0 of named",
        "t": "input 1 of named",
        "u": "input 1 of twice",
    }
    assert [each.holds for each in live_view(PLAN, JobFigures(), (), now=NOW).sources] == [""]


def report(at_ms: int, *, busy_ms: int, rows: int, key: str, position: int = 0) -> SlotStatus:
    """A slot whose subtask of the window has been busy for so long."""
    return SlotStatus(
        counters={"s": {"rows_in": rows}, "a": {"rows_in": rows}},
        figures=SlotFigures(
            at_ms=at_ms,
            nodes=(
                NodeFigures(node="a", own_ms=busy_ms // 2),
                NodeFigures(node="out", own_ms=busy_ms // 4, write_ms=busy_ms // 8, flush_ms=1),
            ),
            times=(
                TimeFigures(task="s", busy_ms=0, idle_ms=at_ms, backpressured_ms=0),
                TimeFigures(task="a", busy_ms=busy_ms, idle_ms=at_ms - busy_ms, backpressured_ms=0, batches=rows // 10),
            ),
            sources=(
                SourceFigures(
                    source="s",
                    total=1,
                    partitions=(
                        PartitionFigures(topic="t", partition=0, position=position, lag=7, watermark=1, quiet_ms=0),
                    ),
                ),
            ),
            keys=(
                KeyFigures(
                    task="a",
                    columns=("k",),
                    rows=100,
                    keys=(HeavyKey(key=key, group=5, rows=50),),
                    groups=(HeavyGroup(group=5, rows=60),),
                ),
            ),
        ),
    )


def figures() -> JobFigures:
    made = JobFigures()
    for at_ms in range(0, 30_001, 1_000):
        # busy only in the last ten seconds
        busy_ms = max(0, at_ms - 20_000)
        made.take(0, report(at_ms, busy_ms=busy_ms, rows=3 * at_ms, key="big", position=2 * at_ms))
        made.take(1, report(at_ms, busy_ms=0, rows=at_ms, key="small", position=at_ms))
    return made


def test_shares_are_those_of_the_last_seconds() -> None:
    view = live_view(PLAN, figures(), (), now=NOW)
    assert (view.window_ms, view.running_ms, view.interval_ms) == (10_000, 30_000, 10_000)
    assert [task.name for task in view.tasks] == ["s", "a"]
    window = view.task("a")
    assert (window.upstream, view.task("s").downstream) == (("s",), ("a",))
    assert [each.busy for each in window.subtasks] == [1.0, 0.0]
    busiest = window.busiest
    assert (busiest.worker, busiest.rows, busiest.batches, busiest.busy_ms) == ("worker-1", 30_000, 3_000, 10_000)
    assert busiest.spent["out"] == NodeSpent(2_500, 1_250, 0)
    assert [(node.name, node.kind, node.connector) for node in window.nodes] == [
        ("a", "aggregate", ""),
        ("out", "sink", "print"),
    ]


def test_the_share_of_a_key_is_that_among_all_rows() -> None:
    keys = live_view(PLAN, figures(), (), now=NOW).task("a").keys
    assert keys is not None and keys.columns == ("k",)
    # half of three quarters of the rows, and half of one quarter
    assert [(each.key, each.subtask, each.share) for each in keys.keys] == [("big", 0, 0.375), ("small", 1, 0.125)]
    assert [each.group for each in keys.groups] == [5, 5]
    assert [each.share for each in keys.groups] == pytest.approx([0.45, 0.15])


def test_partitions_have_their_rate() -> None:
    (source,) = live_view(PLAN, figures(), (), now=NOW).sources
    assert source.partitions == (PartitionView("t", 0, 0, 2_000.0, 7), PartitionView("t", 0, 1, 1_000.0, 7))
    assert (source.lag, source.total, source.rows_per_s) == (14, 2, 4_000.0)


def test_complete_checkpoints_of_this_attempt_count() -> None:
    def entry(epoch: int, status: str, attempt: int = 3) -> CheckpointEntry:
        slowest = (AckedSubtask("a", 1, "worker-2", 900, 10, 5),)
        return CheckpointEntry(epoch, attempt, "checkpoint", epoch * 1_000, 2, status, None, 950, slowest=slowest)  # type: ignore[arg-type]

    log = [entry(20, "in-progress"), entry(19, "failed"), *(entry(n, "committed") for n in range(18, 2, -1))]
    view = live_view(PLAN, figures(), [*log, entry(2, "committed", attempt=2)], now=NOW)
    assert [each.started_at_ms // 1_000 for each in view.checkpoints] == list(range(18, 18 - CHECKPOINTS_LOOKED_AT, -1))
    assert (view.checkpoints[0].slowest, view.checkpoints[0].slowest_ms) == ("a-1", 900)
    assert live_view(PLAN, figures(), [entry(2, "committed", attempt=2)], now=NOW).checkpoints == ()


def test_a_job_without_reports_has_no_figures() -> None:
    view = live_view(PLAN, JobFigures(), (), now=NOW)
    assert view.window_ms == 0 and all(not task.subtasks for task in view.tasks)
