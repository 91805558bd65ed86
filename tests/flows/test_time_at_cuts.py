"""What is written up to a savepoint is a function of the cut, whatever the parallelism, and however soon after the last
row the run ends: every window that ended before the least watermark of a partition there, and no other.

Random logs of several partitions, some of them without a row. Two stages of windows, in slots of this process.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from headrace.rpc.deployment import Deployment
from headrace.spec.reading.read import pipeline_from_dict
from headrace_connectors.files.paths import place_of
from headrace_connectors.memory import open_collected
from support.control.slots import Attempt, Snapshot, deployed
from support.processes.running import wait_until
from support.suite.properties import weighted

Log = list[list[int]]
"""By partition: event times in seconds."""
SHORT_S, LONG_S, LAG_S, KEYS = 10, 60, 3, 3
EARLIEST, LATEST = -math.inf, math.inf
Written = Counter[tuple[str, int, int, int]]
"""(step, key, end of its window in seconds, its count)"""

few = settings(weighted(0.6), phases=(Phase.explicit, Phase.reuse, Phase.generate))
logs = st.lists(st.lists(st.integers(0, 400), max_size=25), min_size=1, max_size=4)


def document(folder: Path, log: Log) -> dict[str, Any]:
    for number, times in enumerate(log):
        lines = [json.dumps({"k": at % KEYS, "at": at}) for at in times]
        (folder / f"{number}.jsonl").write_text("".join(f"{line}\n" for line in lines))
    schema = {"k": "int64", "at": "timestamp(s)"}
    short = {"key_by": ["k"], "window": {"tumbling": f"{SHORT_S}s"}, "aggregate": {"n": "count(*)"}}
    return {
        "name": "cuts",
        "sources": {
            "s": {
                "files": {"path": str(folder / "*.jsonl"), "partitions": len(log)},
                "format": "json",
                "schema": schema,
                "time": {"column": "at", "out_of_orderness": f"{LAG_S}s"},
            }
        },
        "steps": {
            "short": {"from": "s", **short},
            "long": {"from": "short", **short, "window": {"tumbling": f"{LONG_S}s"}, "aggregate": {"n": "sum(n)"}},
        },
        "sinks": {f"{name}_out": {"from": name, "memory": {"name": name}} for name in ("short", "long")},
    }


def expected(log: Log, time_s: float) -> Written:
    """What is written up to a cut behind these rows, where time stands at `time_s`: plain Python, row by row."""
    counts: Counter[tuple[int, int]] = Counter()
    for times in log:
        greatest = EARLIEST
        for at in times:
            greatest = max(greatest, at)
            end = at // SHORT_S * SHORT_S + SHORT_S
            if end > greatest - LAG_S:  # both sides less one millisecond
                counts[at % KEYS, end] += 1
    written: Written = Counter()
    longer: Counter[tuple[int, int]] = Counter()
    for (key, end), count in counts.items():
        if end <= time_s:
            written["short", key, end, count] += 1
            longer[key, -(-end // LONG_S) * LONG_S] += count
    written.update(("long", key, end, count) for (key, end), count in longer.items() if end <= time_s)
    return written


def time_of(times: Sequence[int]) -> float:
    """A partition's own watermark, and one millisecond, in seconds."""
    return max(times) - LAG_S if times else EARLIEST


def ran(attempt: Attempt, log: Log, *, stopped_after: int | None) -> Snapshot:
    """The last epoch: of the end of a hand-over, or of a stop after so many rows."""
    with deployed(attempt):
        if stopped_after is None:
            return attempt.run_to_the_end()
        wait_until(
            lambda: attempt.counters()["s"]["rows_in"] >= min(stopped_after, sum(map(len, log))), "rows are read"
        )
        snapshot = attempt.epoch(stop=True)
        attempt.finish()
        return snapshot


@few
@given(
    log=logs,
    parallelism=st.integers(1, 3),
    stopped_after=st.one_of(st.none(), st.integers(0, 60)),
    interval_ms=st.sampled_from([1, 10**6]),
)
def test_what_is_written_depends_on_the_cut_alone(
    tmp_path_factory: pytest.TempPathFactory,
    log: Log,
    parallelism: int,
    stopped_after: int | None,
    interval_ms: int,
) -> None:
    folder = tmp_path_factory.mktemp("cut")

    def changed(deployment: Deployment) -> Deployment:
        ends = {"hand_over": stopped_after is None, "watermark_interval_ms": interval_ms}
        return deployment.model_copy(update=ends)

    pipeline = pipeline_from_dict({**document(folder, log), "parallelism": parallelism, "batch": {"max_rows": 3}})
    with open_collected("short") as short, open_collected("long") as long:
        cut = ran(Attempt(pipeline, folder, change=changed), log, stopped_after=stopped_after)
        found = Counter(
            (name, row["k"], round(row["window_end"].timestamp()), row["n"])
            for name, collected in (("short", short), ("long", long))
            for row in collected.rows()
        )
    read = [times[: _rows_before(state.position)] for times, state in zip(log, cut.sources["s"].splits, strict=True)]
    # a partition that was read to its end holds time back in a hand-over only: others go on there
    times = [
        LATEST if state.finished and stopped_after is not None else time_of(rows)
        for rows, state in zip(read, cut.sources["s"].splits, strict=True)
    ]
    assert found == expected(read, min(times))


def _rows_before(position: int) -> int | None:
    file, line = place_of(position)
    return None if file else line
