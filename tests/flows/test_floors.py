"""Idle, resuming and newly found partitions: a live run, and the same log again with the floors that it recorded."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

import pytest

from headrace.core.source_state import AppliedFloor
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import JobOptions, LocalJob
from headrace.local.engine.pipeline_ends import Taps, with_taps
from headrace.local.engine.rows_run import resized
from headrace.spec.reading.read import pipeline_from_dict
from support.control.scripted import SCHEMA, Script, ScriptedSource
from support.processes.running import WAIT_SECONDS, wait_until

STEPS = {
    "w": {
        "from": "rows",
        "key_by": ["key"],
        "window": {"sliding": "30ms", "every": "10ms"},
        "aggregate": {"n": "count(*)", "sum": "sum(i)", "first": "first(i)"},
    }
}
Rows = list[tuple[Any, ...]]
END_MS = 1_000
"""Windows up to here are compared: the live run is stopped before later ones close."""


def prepared(script: Script, *, whole: bool, parallelism: int, batch: int, discovery_ms: int | None) -> Any:
    source = {"memory": {"name": "unused"}, "schema": SCHEMA, "time": {"column": "ts", "idle_after": "150ms"}}
    sink = {"from": "w", "print": {}}
    data = {"name": "p", "sources": {"rows": source}, "steps": STEPS, "sinks": {"out": sink}}
    flow, taps = with_taps(pipeline_from_dict(data), ["w", "w.late"], keep_sinks=False)
    config = ScriptedSource(script=script, whole=whole, discovery_ms=None if whole else discovery_ms)
    node = flow.sources["rows"].model_copy(update={"connector": "scripted", "config": config})
    return resized(flow.model_copy(update={"sources": {"rows": node}}), batch_rows=batch, parallelism=parallelism), taps


def collected(taps: Taps, reference: str, columns: Sequence[str]) -> Rows:
    batches = taps[reference][1]._batches
    return sorted(row for batch in list(batches) for row in batch.select(columns).rows())


def results(taps: Taps) -> tuple[Rows, Rows]:
    """Windows up to END_MS, and late rows."""
    windows = collected(taps, "w", ["key", "window_start", "window_end", "n", "sum", "first"])
    return [row for row in windows if row[2].timestamp() * 1000 <= END_MS], collected(taps, "w.late", ["key", "i"])


def rerun(script: Script, floors: tuple[AppliedFloor, ...], shape: tuple[int, int]) -> tuple[Rows, Rows]:
    flow, taps = prepared(script, whole=True, parallelism=shape[0], batch=shape[1], discovery_ms=None)
    job = LocalJob(compile_pipeline(flow).physical, JobOptions(watermark_interval_ms=0, floors=floors))
    job.run()
    assert set(floors) <= set(job.applied_floors())
    return results(taps)


def fired_until(taps: Taps, end_ms: int) -> bool:
    return any(row[0].timestamp() * 1000 >= end_ms for row in collected(taps, "w", ["window_end"]))


class Live:
    """A job that runs while the test adds to its log."""

    def __init__(self, script: Script, parallelism: int, discovery_ms: int | None) -> None:
        flow, self.taps = prepared(script, whole=False, parallelism=parallelism, batch=7, discovery_ms=discovery_ms)
        self.script = script
        self.job = LocalJob(compile_pipeline(flow).physical, JobOptions(watermark_interval_ms=0))
        self._thread = threading.Thread(target=self.job.run)
        self._thread.start()

    def wait_for_window(self, end_ms: int, **beats: int) -> None:
        """`beats`: p<partition>=<event time> of rows that come all the while, so that this partition is not idle."""

        def fired() -> bool:
            for partition, ts in beats.items():
                self.script.add(int(partition[1:]), (ts, 0))
            return fired_until(self.taps, end_ms)

        wait_until(fired, f"no window fired that ends at {end_ms}")

    def _wait_read(self) -> None:
        rows = sum(len(partition) for partition in self.script.rows)
        wait_until(lambda: self.job.progress().rows_in == rows, "all rows are read")

    def finish(self) -> tuple[Rows, Rows]:
        """Takes every partition past END_MS, waits for the last window that is compared, stops."""
        # a partition that resumes just now, in a slow thread, must not find its rows late for others' last ones
        self._wait_read()
        for partition in range(self.script.known):
            self.script.add(partition, (END_MS - 1, 9))
        # a partition that is idle just now must not find its row late, because another one was read on to what follows
        self._wait_read()
        self.wait_for_window(END_MS, **{f"p{partition}": END_MS + 100 for partition in range(self.script.known)})
        self.job.stop()
        self._thread.join(WAIT_SECONDS)
        assert not self._thread.is_alive()
        return results(self.taps)


def check_reruns(live: Live, found: tuple[Rows, Rows]) -> None:
    floors = tuple(live.job.applied_floors())
    assert floors, "a floor took effect"
    for shape in ((1, 1), (2, 7), (3, 1000)):
        assert rerun(live.script, floors, shape) == found, shape
    assert rerun(live.script, (), (1, 7)) != found, "the floors make the difference"


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_partition_that_resumes_after_windows_fired_without_it(parallelism: int) -> None:
    script = Script([[(1, 1), (12, 2)], [(5, 11)]], known=2)
    live = Live(script, parallelism, None)
    script.add(0, (100, 1), (101, 2))
    live.wait_for_window(40, p0=102)  # the second partition stands at 5: only its idleness lets time pass
    script.add(1, (7, 12), (95, 11), (96, 12), (105, 11), (990, 11))
    found = live.finish()
    assert found[1] == [("2", 12)], "the row at 7 ms came after all of its windows"
    check_reruns(live, found)


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_a_partition_that_is_found_while_the_job_runs(parallelism: int) -> None:
    script = Script([[(1, 1), (12, 2), (100, 1)], [(5, 11), (110, 12)], []], known=2)
    live = Live(script, parallelism, 20)
    live.wait_for_window(40, p0=100, p1=110)
    script.add(2, (7, 22), (85, 21), (86, 22), (87, 21), (200, 22))
    script.known = 3
    wait_until(lambda: live.job.progress().late > 0, "the partition was not found, or its row at 7 ms is not late")
    live.wait_for_window(130, p0=150, p1=150, p2=210)
    script.add(2, (300, 21), (205, 22))
    found = live.finish()
    assert ("2", 22) in found[1]
    check_reruns(live, found)


@pytest.mark.parametrize("parallelism", [1, 2])
def test_all_partitions_idle_and_then_one_after_the_other(parallelism: int) -> None:
    script = Script([[(50, 1)], [(60, 11)], [(40, 21)]], known=3)
    live = Live(script, parallelism, None)
    live.wait_for_window(90, p2=200)
    script.add(0, (45, 2), (185, 1), (240, 1))
    live.wait_for_window(230, p0=250)
    script.add(1, (46, 12), (205, 11), (260, 11))
    live.wait_for_window(270, p1=280)
    found = live.finish()
    check_reruns(live, found)


@pytest.mark.parametrize("parallelism", [1, 2, 4])
def test_all_partitions_idle_at_once(parallelism: int) -> None:
    """No partition goes on: time stands at the furthest one, and again at another one after a row of that."""
    script = Script([[(1, 1), (12, 2), (100, 1)], [(5, 11)]], known=2)
    live = Live(script, parallelism, None)
    live.wait_for_window(40)
    script.add(1, (7, 12), (95, 11), (150, 12), (205, 11))
    live.wait_for_window(180)
    script.add(0, (110, 2), (195, 1), (300, 1))
    live.wait_for_window(230)
    found = live.finish()
    assert {i for _, i in found[1]} == {12, 2}, "the rows at 7 and 110 ms came after all of their windows"
    check_reruns(live, found)
