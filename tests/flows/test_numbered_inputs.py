"""A step with two inputs, each spread by its own key, through the engines; also one that reads one node twice."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.checkpoint.stores.opening import open_store
from headrace.coordinator.figures.standing_time import STANDS_MS
from headrace.core.batch import TS
from headrace.core.clock import SystemClock
from headrace.core.signals import TIME_MIN, Watermark
from headrace.execution.planning import JobPlans
from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import LOOK_MS, JobOptions, SliceWatch, open_linked, slices_of
from headrace.local.engine.rows_run import run_on_rows
from headrace.local.engine.subtask_epochs import Reports
from headrace.plan.explain import explain_lines
from headrace.plan.physical import PhysicalPlan
from headrace.spark.driver.replay import Replay, ReplayWish
from headrace.spark.task import level_run
from headrace.spark.task.output import outlets
from headrace.spark.task.output.staging_end import read_staged
from headrace.spec.reading.read import pipeline_from_dict
from headrace.worker.slot.slice import Slice
from headrace.worker.task.subtask import Subtask
from headrace_connectors.memory import open_collected
from support.flows.cuts import Cut, ends_of, stopping
from support.flows.engines import Stretch, live, replayed
from support.processes.running import wait_until
from support.spark.local_exchange import LocalExchange
from support.two_inputs import register

ROWS = 400
GENERATED = {
    "rows": ROWS,
    "partitions": 2,
    "seed": 5,
    "columns": {
        "n": {"sequence": {"start": 0}},
        "a": {"int": {"min": 0, "max": 40}},
        "b": {"int": {"min": 0, "max": 40}},
        "at": {"time": {"start": "2024-03-01T00:00:00Z", "step": "1s", "jitter": "20s"}},
    },
}
SCHEMA = {"n": "int64", "a": "int64", "b": "int64", "at": "timestamp"}


@pytest.fixture(autouse=True)
def _verb(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch)


def document(sides: list[str]) -> dict[str, Any]:
    """A pipeline whose step `both` reads these nodes."""
    time = {"column": "at", "out_of_orderness": "30s"}
    source = {"generator": GENERATED, "schema": SCHEMA, "time": time}
    return {
        "name": "two-inputs",
        "parallelism": 2,
        "sources": {"s": source, "t": source} if "t" in sides else {"s": source},
        "steps": {"both": {"sides": sides, "keys": ["a", "b"]}},
        "sinks": {"out": {"from": "both", "print": {}}},
    }


def expected(frames: Mapping[str, pl.DataFrame], sides: list[str]) -> list[tuple[int, int, int]]:
    """Every row of each side with the number of its input and that input's key."""
    return sorted(
        (number, row[key], row["n"])
        for number, (name, key) in enumerate(zip(sides, "ab", strict=True))
        for row in frames[name].to_dicts()
    )


@pytest.mark.parametrize("sides", [["s", "s"], ["t", "s"]])
def test_each_row_comes_with_the_number_of_its_input(sides: list[str]) -> None:
    base = pl.DataFrame({"n": range(ROWS), "a": [n % 17 for n in range(ROWS)], "b": [n % 13 for n in range(ROWS)]})
    at = pl.from_epoch(pl.col("n") * 1_000, time_unit="ms").dt.replace_time_zone("UTC").alias("at")
    frames = {"s": base.with_columns(at), "t": base.with_columns(at, n=pl.col("n") + 1_000)}
    run = run_on_rows(pipeline_from_dict(document(sides)), {name: frames[name] for name in sides})
    rows = run.outputs["out"].frame()
    assert sorted(rows.select("side", "key", "n").rows()) == expected(frames, sides)


def staged(folder: Path, sides: list[str]) -> list[tuple[int, int, int]]:
    """The rows of a replay on levels of tasks."""
    wish = ReplayWish(job="two-inputs", storage=str(folder), parallelism=2, publish=False)
    outcome = Replay(JobPlans(document(sides)), wish, LocalExchange(7), SystemClock()).run()
    store = open_store(outcome.storage)
    frames = [frame for share in outcome.staged for frame in read_staged(share.files, store)]
    return sorted(pl.concat(frames).select("side", "key", "n").rows())


@pytest.mark.parametrize("sides", [["s", "s"], ["t", "s"]])
def test_spark_reads_the_inputs_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sides: list[str]) -> None:
    monkeypatch.setattr(outlets, "BLOB_ROWS", 40)
    monkeypatch.setattr(level_run, "MERGE_BYTES", 320)
    found = staged(tmp_path, sides)
    # each source makes the same rows, so both sides have all of them
    assert sorted(n for side, _, n in found if side == 0) == sorted(n for side, _, n in found if side == 1)
    assert len(found) == 2 * ROWS


@pytest.mark.parametrize("sides", [["s", "s"], ["t", "s"]])
def test_both_inputs_go_on_at_another_parallelism_and_on_spark(tmp_path: Path, sides: list[str]) -> None:
    """Where there are two sources, the first one is quiet up to the first cut: time stands, and all rows are state."""
    flow = document(sides) | {"sinks": {"out": {"from": "both", "memory": {"name": "both"}}}}
    ends = ends_of(flow)
    early: Cut = {source: dict.fromkeys(rows, 0 if source == "t" else 80) for source, rows in ends.items()}
    middle: Cut = {source: dict.fromkeys(rows, 120) for source, rows in ends.items()}
    with open_collected("both") as collected:
        live(Stretch(stopping(flow, None, ends), 1, closes=True), tmp_path)
        straight = sorted((row["side"], row["key"], row["n"]) for row in collected.rows())
    assert len(straight) == 2 * ROWS
    with open_collected("both") as collected:
        begin = live(Stretch(stopping(flow, early, ends), 2), tmp_path)
        assert (len(collected.rows()) == 0) == ("t" in sides)
        begin = replayed(Stretch(stopping(flow, middle, ends), 3, begin, groups=7), LocalExchange(7), tmp_path)
        last = Stretch(stopping(flow, None, ends), 3, begin, closes=True, groups=128, backend="disk")
        live(last, tmp_path)
        assert sorted((row["side"], row["key"], row["n"]) for row in collected.rows()) == straight


# ---- what time waits for ---------------------------------------------------------------------------------------------


class Stepped(SystemClock):
    """A clock that stands until it is told to go on."""

    def __init__(self) -> None:
        self.passed_ms = 0

    def monotonic_ms(self) -> int:
        return self.passed_ms


@contextmanager
def running(physical: PhysicalPlan, clock: Stepped) -> Iterator[Slice]:
    """The slice of a plan whose step `both` runs and is fed by hand: its sources do not run."""
    (part,) = slices = slices_of(physical, JobOptions().slices(), Reports(), clock)
    open_linked(slices)
    (loop,) = (each.loop for each in part.subtasks if isinstance(each.loop, Subtask) and each.task.name == "both")
    thread = threading.Thread(target=loop.run)
    thread.start()
    try:
        yield part
    finally:
        loop.finish()
        thread.join()
        assert not part.close()


@pytest.mark.parametrize("quiet", [0, 1])
def test_time_stands_while_one_input_is_quiet_and_what_waits_names_it(quiet: int) -> None:
    physical = compile_pipeline(pipeline_from_dict(document(["s", "s"]) | {"parallelism": 1})).physical
    clock, loud = Stepped(), 1 - quiet
    with running(physical, clock) as part:
        watch, box = SliceWatch(physical, [part], clock), part.mailboxes["both"]
        both = next(each for each in part.subtasks if each.task.name == "both")
        box.put(loud, pl.DataFrame({"n": [1], "a": [1], "b": [1], "at": [None], TS: [5_000]}))
        box.put(loud, Watermark(9_000))
        windowed = both.links["both"].windowed
        assert windowed is not None
        wait_until(lambda: windowed.next_end == 5_001 and not box.rows_queued, "the row has not been read")
        assert windowed.watermark == TIME_MIN
        for passed_ms in (LOOK_MS, LOOK_MS + STANDS_MS):
            assert watch.waiting == ()
            clock.passed_ms = passed_ms
            watch.look(frozenset({("both", 0), ("s", 0)}))
        (waiting,) = watch.waiting
        assert waiting.node == "both"
        assert waiting.on.startswith(f"input {quiet} of both: the first row of source s")
        box.put(quiet, Watermark(7_000))
        wait_until(lambda: windowed.next_end is None, "time does not go on")


def test_explain_shows_the_inputs() -> None:
    compiled = compile_pipeline(pipeline_from_dict(document(["t", "s"])))
    lines = list(explain_lines(compiled.logical, compiled.physical))
    at = lines.index("  inputs       0 t: append, hash(a)")
    assert lines[at + 1] == "               1 s: append, hash(b)"
    below = lines[lines.index("edges") + 1 :]
    assert below[:2] == [
        "  t -> input 0 of both: hash(a)",
        "  s -> input 1 of both: hash(b)",
    ]
