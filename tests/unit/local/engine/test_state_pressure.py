"""Sources pause while a slot holds more state than its budget, but for those that time waits for: with one input quiet,
the others wait for it, and it alone can empty the state."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.core.config import duration_text
from headrace.execution.planning import plan_pipeline
from headrace.local.engine.job import JobOptions, JobState, LocalJob, Progress
from headrace.state.place import StateTerms

ROWS, QUIET_ROWS = 240_000, 12
"""Rows of both sources, over the same span of event time."""
QUIET_STEP_MS = ROWS // QUIET_ROWS


def source(rows: int, rate: float, step_ms: int) -> dict[str, Any]:
    columns = {"n": {"sequence": {}}, "at": {"time": {"step": duration_text(step_ms)}}}
    return {
        "generator": {"rows": rows, "rate": rate, "columns": columns},
        "schema": {"n": "int64 not null", "at": "timestamp not null"},
        "time": {"column": "at"},
    }


def pipeline(out: Path) -> dict[str, Any]:
    return {
        "name": "pressed",
        "sources": {"fast": source(ROWS, 200_000, 1), "quiet": source(QUIET_ROWS, 4, QUIET_STEP_MS)},
        "steps": {
            "both": {"union": ["fast", "quiet"]},
            "counted": {
                "from": "both",
                "key_by": ["n"],
                "window": {"tumbling": "10s"},
                "aggregate": {"rows": "count(*)"},
            },
        },
        "sinks": {"out": {"from": "counted", "files": {"path": str(out)}, "format": "parquet"}},
    }


@pytest.mark.parametrize("memory_bytes", [1024, 1 << 30])
def test_the_fast_source_waits_for_the_quiet_one(tmp_path: Path, memory_bytes: int) -> None:
    plan = replace(
        plan_pipeline(pipeline(tmp_path / "out")), state=StateTerms("disk", memory_bytes, str(tmp_path / "local"))
    )
    job = LocalJob(plan, JobOptions())
    ahead: list[int] = []

    def look(_: Progress) -> None:
        counters = job.counters()
        fast, quiet = (counters[name]["rows_out"] if name in counters else 0 for name in ("fast", "quiet"))
        if 2 < quiet < QUIET_ROWS:
            ahead.append(fast - quiet * QUIET_STEP_MS)

    assert job.run(look) is JobState.FINISHED, "nobody waits for ever"
    found = pl.read_parquet(tmp_path / "out" / "**/*.parquet")
    assert found["rows"].sum() == ROWS + QUIET_ROWS
    if memory_bytes == 1024:
        assert max(ahead) < ROWS // 3
    else:
        assert max(ahead) > ROWS // 3, "without pressure the fast source runs ahead"
