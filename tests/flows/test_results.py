"""The local engine against a plain oracle: the same bits for any batch size, interleaving and parallelism."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.local.engine.compile import compile_pipeline
from headrace.local.engine.job import JobOptions, LocalJob
from headrace.local.engine.pipeline_ends import with_rows, with_taps
from headrace.local.engine.rows_run import resized
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from support.flows.rows import Log, logs, sliding
from support.oracles.aggregates import AGGREGATES, Row, aggregate, bits
from support.suite.properties import weighted

NAMES = tuple(AGGREGATES)
SHAPES = st.sampled_from([(1, 1), (7, 1), (1000, 1), (1, 2), (7, 2), (3, 5), (1000, 5)])
"""(rows in a batch, parallelism)"""
NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # an example takes a job: shrinking would take minutes
quick = settings(weighted(0.4), phases=NO_SHRINKING)


def pipeline(lag_ms: int, steps: Mapping[str, Any], last: str) -> Pipeline:
    source = {
        "memory": {"name": "unused"},
        "schema": {"key": "string", "x": "float64", "i": "int64", "s": "string", "ts": "timestamp"},
        "time": {"column": "ts", "out_of_orderness": f"{lag_ms}ms"},
    }
    sink = {"from": last, "print": {}}
    return pipeline_from_dict({"name": "p", "sources": {"rows": source}, "steps": steps, "sinks": {"out": sink}})


def run(
    flow: Pipeline, log: Log, shape: tuple[int, int], taps: Sequence[str]
) -> tuple[dict[str, pl.DataFrame], LocalJob]:
    """Every row that reached each tap, with watermarks as often as the loop allows."""
    batch_rows, parallelism = shape
    sized = resized(flow, batch_rows=batch_rows, parallelism=parallelism)
    changed, collected = with_taps(with_rows(sized, {"rows": log.frame()}), taps, keep_sinks=False)
    compiled = compile_pipeline(changed)
    job = LocalJob(compiled.physical, JobOptions(watermark_interval_ms=0))
    job.run()
    made = {}
    for tap, (sink, collection) in collected.items():
        spec = compiled.logical.node(sink).spec
        key = spec.update_key  # type: ignore[union-attr]
        schema = spec.schema  # type: ignore[union-attr]
        made[tap] = collection.frame(schema) if key is None else collection.latest(schema, key)
    return made, job


def windowed_rows(frame: pl.DataFrame) -> Counter[tuple[object, ...]]:
    times = pl.col("window_start", "window_end").dt.timestamp("ms")
    return Counter(tuple(map(bits, row)) for row in frame.with_columns(times).rows())


def differences(got: Counter[tuple[object, ...]], expected: set[tuple[object, ...]]) -> list[object]:
    """Results that differ, each with its key, window, and (name, got, expected) of what differs."""
    found: list[object] = [("missing", row) for row in expected - set(got)]
    for row, times in (got - Counter(expected)).items():
        twin = next((other for other in expected if other[:3] == row[:3]), None)
        if twin is None:
            found.append(("unexpected", times, row))
        else:
            found.append((row[:3], [(n, a, b) for n, a, b in zip(NAMES, row[3:], twin[3:], strict=True) if a != b]))
    return found


def counted(results: set[tuple[object, ...]]) -> Counter[tuple[object, ...]]:
    return Counter(results)


@pytest.mark.parametrize(
    ("window", "size", "every"),
    [({"tumbling": "20ms"}, 20, 20), ({"sliding": "30ms", "every": "10ms"}, 30, 10)],
    ids=["tumbling", "sliding"],
)
@given(log=logs(), shape=SHAPES)
@quick
def test_windows(window: dict[str, str], size: int, every: int, log: Log, shape: tuple[int, int]) -> None:
    expected = aggregate(log.rows, sliding(size, every), NAMES)
    step = {"from": "rows", "key_by": ["key"], "window": window, "aggregate": {n: AGGREGATES[n][0] for n in NAMES}}
    made, job = run(pipeline(log.lag_ms, {"w": step}, "w"), log, shape, ["w", "w.late"])
    assert differences(windowed_rows(made["w"]), expected.results) == []
    assert made["w.late"].height == len(expected.late)
    assert job.counters()["w"]["partly_late"] == expected.partly


@given(log=logs(), shape=SHAPES)
@quick
def test_allowed_lateness_leaves_the_same_last_row_by_key(log: Log, shape: tuple[int, int]) -> None:
    expected = aggregate(log.rows, sliding(20, 20), NAMES, allowed=40)
    step = {
        "from": "rows",
        "key_by": ["key"],
        "window": {"tumbling": "20ms"},
        "allowed_lateness": "40ms",
        "aggregate": {n: AGGREGATES[n][0] for n in NAMES},
    }
    made, _ = run(pipeline(log.lag_ms, {"w": step}, "w"), log, shape, ["w"])
    assert differences(windowed_rows(made["w"]), expected.results) == []


@given(log=logs(), shape=SHAPES)
@quick
def test_two_windowed_stages_in_a_row(log: Log, shape: tuple[int, int]) -> None:
    first = aggregate(log.rows, sliding(10, 10), ["sum_i", "n"])
    again = [
        Row(None, None, total, None, end - 1, end - 2, 0, 0)  # type: ignore[arg-type, operator]
        for _, _, end, total, _ in first.results
    ]
    second = aggregate(again, sliding(50, 50), ["sum_i", "n"])
    steps = {
        "small": {
            "from": "rows",
            "key_by": ["key"],
            "window": {"tumbling": "10ms"},
            "aggregate": {"t": "sum(i)", "n": "count(*)"},
        },
        "large": {
            "from": "small",
            "window": {"tumbling": "50ms"},
            "aggregate": {"t": "sum(t)", "n": "count(*)"},
        },
    }
    made, job = run(pipeline(log.lag_ms, steps, "large"), log, shape, ["large"])
    assert windowed_rows(made["large"]) == counted({row[1:] for row in second.results})
    assert job.counters()["large"]["late"] == 0


@given(log=logs(), shape=SHAPES)
@quick
def test_running_aggregates_drop_nothing(log: Log, shape: tuple[int, int]) -> None:
    everything = [Row(r.key, r.x, r.i, r.s, r.ts, -(10**9), r.partition, r.offset) for r in log.rows]
    expected = aggregate(everything, lambda _: [(0, 1 << 40)], NAMES)
    step = {"from": "rows", "key_by": ["key"], "aggregate": {n: AGGREGATES[n][0] for n in NAMES}}
    made, _ = run(pipeline(log.lag_ms, {"r": step}, "r"), log, shape, ["r"])
    assert Counter(tuple(map(bits, row)) for row in made["r"].rows()) == counted(
        {(key, *values) for key, _, _, *values in expected.results}
    )
