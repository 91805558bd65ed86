from __future__ import annotations

import pytest

from headrace.checkpoint.manifest import SubtaskDocument
from headrace.core.errors import InternalError
from headrace.core.source_state import SourceState, SplitState
from headrace.execution.planning import plan_facts
from headrace.spark.driver.manifest import CutFacts, committables_of, manifest_of, one_of_each, share_of
from headrace.spark.levels.envelope import Envelope, Kind
from headrace.spark.levels.levels import levels_of
from headrace.spark.task.order import StagedShare, TaskReport
from unit.spark.plans import COUNT, plan_of

PLAN = plan_of({"counts": {"from": "one", **COUNT}}, "counts", parallelism=2)
LEVELS = levels_of(PLAN, {"one": 2, "two": 1})


def report(level: int, partition: int, rows: int = 0, **split: int | None) -> TaskReport:
    task, subtask = LEVELS.at(level, partition)
    sources = {task: SourceState((SplitState("one", subtask, **split),))} if split else {}  # type: ignore[arg-type]
    document = SubtaskDocument(
        task=task, subtask=subtask, states=(), sources=sources, counters={task: {"rows_in": rows}}
    )
    staged = (StagedShare(sink="out", subtask=subtask, rows=rows, files=()),) if level else ()
    return TaskReport(level=level, partition=partition, document=document, staged=staged)


def packed(*reports: TaskReport) -> list[bytes]:
    envelopes = [Envelope(Kind.REPORT, len(LEVELS.widths), 0, each.model_dump_json().encode()) for each in reports]
    return [envelope.pack() for envelope in envelopes]


ALL = [report(level, partition) for level, width in enumerate(LEVELS.widths) for partition in range(width)]


def test_one_report_of_each_task_in_any_order() -> None:
    assert one_of_each(packed(*reversed(ALL)), LEVELS) == ALL


def test_of_two_tries_always_the_same() -> None:
    twice = [*ALL, report(1, 0, rows=5)]
    assert one_of_each(packed(*twice), LEVELS) == one_of_each(packed(*reversed(twice)), LEVELS)


def test_a_task_that_has_not_reported() -> None:
    with pytest.raises(InternalError, match="task 1 of level 1 has not reported"):
        one_of_each(packed(*[each for each in ALL if (each.level, each.partition) != (1, 1)]), LEVELS)


def facts(before: SourceState | None = None) -> CutFacts:
    return CutFacts(
        job="j",
        pipeline="p",
        version="1",
        epoch=1,
        attempt=1,
        created_at_ms=0,
        facts=plan_facts(PLAN),
        splits={},
        before={} if before is None else {"one": before},
        counted={"one": {"rows_in": 100}},
    )


@pytest.mark.parametrize(
    ("earlier", "emitted"), [(None, 20), (SourceState(emitted=15), 20), (SourceState(emitted=30), 30)]
)
def test_a_source_has_emitted_what_the_slowest_of_its_splits_lets_it(earlier: SourceState | None, emitted: int) -> None:
    reports = [report(0, 0, 3, position=4, max_ts=50), report(0, 1, 4, position=9, max_ts=10, floor=20), *ALL[2:]]
    manifest = manifest_of(facts(earlier), PLAN, reports, None)
    # `one` has no time of its own: its height is its greatest event time
    assert manifest.sources["one"].emitted == emitted
    assert [split.position for split in manifest.sources["one"].splits] == [4, 9]
    assert manifest.counters["one"]["rows_in"] == 107
    assert manifest.sources["two"].splits == ()


def test_a_split_without_rows_holds_time_back() -> None:
    reports = [report(0, 0, 3, position=4, max_ts=50), report(0, 1, 0, position=0), *ALL[2:]]
    assert manifest_of(facts(), PLAN, reports, None).sources["one"].emitted is None


def test_shares_there_and_back() -> None:
    items = committables_of([report(1, 0, rows=5)], 1)
    assert [share_of(item) for item in items] == [StagedShare(sink="out", subtask=0, rows=5, files=())]
