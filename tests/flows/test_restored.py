"""Whole pipelines over slots, cut at an epoch and restored with another parallelism, another place of their state, and
another `max_parallelism`: the same rows as a straight run.

Sinks are at-least-once: results are compared after de-duplication, updating ones by the last row of each key.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.local.engine.rows_run import resized
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from headrace.testing import run_pipeline
from headrace_connectors.memory import Feed, open_collected, open_feed
from support.control.slots import Attempt, Snapshot, deployed
from support.flows.backends import BACKENDS, Backend, kept_in
from support.flows.rows import Log, logs
from support.oracles.aggregates import AGGREGATES, bits
from support.suite.properties import weighted

pytestmark = pytest.mark.turns(2)

NO_SHRINKING = (Phase.explicit, Phase.reuse, Phase.generate)  # an example takes three attempts
few = settings(weighted(0.12), phases=NO_SHRINKING)

EXPRESSIONS = {name: expression for name, (expression, *_) in AGGREGATES.items()}
TUMBLING = {"from": "rows", "key_by": ["key"], "window": {"tumbling": "20ms"}, "aggregate": EXPRESSIONS}
FLOWS: dict[str, tuple[dict[str, Any], str, Sequence[str] | None]] = {
    "windows": ({"windows": TUMBLING}, "windows", None),
    "sliding": ({"windows": TUMBLING | {"window": {"sliding": "30ms", "every": "10ms"}}}, "windows", None),
    "cumulating": ({"windows": TUMBLING | {"window": {"cumulate": "40ms", "every": "10ms"}}}, "windows", None),
    "without a key": (
        {"windows": {name: value for name, value in TUMBLING.items() if name != "key_by"}},
        "windows",
        None,
    ),
    "late rows": ({"windows": TUMBLING}, "windows.late", None),
    "allowed lateness": (
        {"windows": TUMBLING | {"allowed_lateness": "40ms"}},
        "windows",
        ("key", "window_start", "window_end"),
    ),
    "running": ({"totals": {"from": "rows", "key_by": ["key"], "aggregate": EXPRESSIONS}}, "totals", ("key",)),
    "two stages": (
        {
            "first": {
                "from": "rows",
                "key_by": ["key", "s"],
                "window": {"tumbling": "10ms"},
                "aggregate": {"n": "count(*)", "top": "max(i)"},
            },
            "second": {
                "from": "first",
                "key_by": ["key"],
                "window": {"tumbling": "40ms"},
                "aggregate": {"n": "sum(n)", "top": "max(top)"},
            },
        },
        "second",
        None,
    ),
    "union": (
        {
            "low": {"from": "rows", "filter": "i < 0"},
            "high": {"from": "rows", "filter": "i >= 0"},
            "both": {"union": ["low", "high"]},
            "windows": TUMBLING | {"from": "both", "aggregate": {"n": "count(*)", "least": "min(i)"}},
        },
        "windows",
        None,
    ),
    **{
        f"partition {shape}": (
            {
                "spread": {"from": "rows", "with_columns": {"j": "i + 1"}, "partition": shape},
                "windows": TUMBLING | {"from": "spread", "aggregate": {"n": "count(*)", "top": "max(j)"}},
            },
            "windows",
            None,
        )
        for shape in ("forward", "rebalance", "rescale", "global")
    },
}


def pipeline(steps: Mapping[str, Any], reference: str, log: Log) -> Pipeline:
    source = {
        "memory": {"name": "rows", "partitions": len(log.partitions)},
        "schema": {"key": "string", "x": "float64", "i": "int64", "s": "string", "ts": "timestamp"},
        "time": {"column": "ts", "out_of_orderness": f"{log.lag_ms}ms"},
    }
    sink = {"from": reference, "memory": {"name": "out"}}
    if ".late" in reference or "second" in steps:
        sink["partition"] = "rebalance"
    return pipeline_from_dict(
        {
            "name": "p",
            "batch": {"max_rows": 7},
            "sources": {"rows": source},
            "steps": dict(steps),
            "sinks": {"out": sink},
        }
    )


def feed_part(feed: Feed, log: Log, part: int, parts: int) -> None:
    """Appends the part-th of `parts` slices of every partition."""
    frame = log.frame()
    for number in range(len(log.partitions)):
        own = frame.filter(pl.col("$partition") == number).drop("$partition")
        begin, end = own.height * part // parts, own.height * (part + 1) // parts
        if end > begin:
            feed.append(own[begin:end], number)


def compared(frame: pl.DataFrame, key: Sequence[str] | None) -> set[tuple[object, ...]]:
    """Rows as a set: the last one of each key where there is a key."""
    if key is not None:
        frame = frame.unique(subset=list(key), keep="last", maintain_order=True)
    times = pl.col(pl.Datetime("us", "UTC")).dt.timestamp("ms")
    return {tuple(map(bits, row)) for row in frame.with_columns(times).rows()}


backends = st.lists(st.sampled_from(BACKENDS), min_size=3, max_size=3)
key_groups = st.lists(st.sampled_from([128, 3, 7, 32_768]), min_size=3, max_size=3)
"""`max_parallelism` of the attempts that go on from a savepoint."""


@pytest.mark.parametrize("name", FLOWS)
@few
@given(
    log=logs(),
    saved=st.booleans(),
    mode=st.sampled_from(["epoch in the middle", "epochs on end"]),
    backends=backends,
    groups=key_groups,
)
def test_cut_and_rescaled_runs_give_the_same_rows(
    name: str,
    tmp_path_factory: pytest.TempPathFactory,
    log: Log,
    saved: bool,
    mode: str,
    backends: list[Backend],
    groups: list[int],
) -> None:
    steps, reference, key = FLOWS[name]
    flow = pipeline(steps, reference, log)
    golden = run_pipeline(flow, {"rows": log.frame()}).frame("out")
    folder = tmp_path_factory.mktemp("slots")
    parallelisms = (2, 3, 1)
    restored: Snapshot | None = None
    with open_feed("rows", len(log.partitions)) as feed, open_collected("out") as collected:
        for number, parallelism in enumerate(parallelisms):
            sized = resized(flow, parallelism=parallelism)
            if saved:
                sized = sized.model_copy(update={"max_parallelism": groups[number]})
            attempt = Attempt(sized, folder, number=number + 1, restored=restored, from_savepoint=saved)
            with kept_in(backends[number], folder / "local"), deployed(attempt):
                feed_part(feed, log, 2 * number, 2 * len(parallelisms))
                if mode == "epochs on end":
                    attempt.epoch()
                restored = attempt.epoch(savepoint=str(folder / f"savepoint-{number}") if saved else "")
                feed_part(feed, log, 2 * number + 1, 2 * len(parallelisms))
                if number == len(parallelisms) - 1:
                    feed.end()
                    attempt.run_to_the_end()
                else:
                    attempt.epoch()  # completed, and not the one that is restored: all of its rows come again
                    attempt.cancel()
        batches = [batch.select(golden.columns) for batch in collected.batches()]
    found = pl.concat(batches) if batches else golden.clear()
    assert compared(found, key) == compared(golden, key)
