"""Everything that only reports raises: the rows are the same, and no slot fails."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from headrace.core.reporting import FAILED
from headrace.operators import row_errors
from headrace.operators.chain import LatenessHistogram
from headrace.spec.reading.read import pipeline_from_dict
from headrace.worker.slot.status_report import StatusReport
from headrace.worker.task.ingest import FirstRowsCount
from headrace.worker.task.key_sample import KeySample
from headrace_connectors.memory import open_collected
from support.control.slots import Attempt, deployed

REPORTERS: dict[str, tuple[Any, str]] = {
    "sample of keys": (KeySample, "add"),
    "first rows": (FirstRowsCount, "add"),
    "lateness of late rows": (LatenessHistogram, "add"),
    "figures": (StatusReport, "_figures"),
    "reason of a bad row": (row_errors, "_reason"),
}
"""Kind of a report -> what makes it."""
OUTPUTS = {"sums": "w", "late": "w.late", "bad": "asked.bad"}


def document(folder: Path) -> dict[str, Any]:
    rows = [{"k": n % 5, "n": n % 7, "at": n if n % 11 else 0} for n in range(1, 400)]
    (folder / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return {
        "name": "reports",
        "parallelism": 2,
        "batch": {"max_rows": 50},
        "sources": {
            "s": {
                "files": {"path": str(folder / "*.jsonl")},
                "format": "json",
                "schema": {"k": "int64", "n": "int64", "at": "timestamp(s)"},
                "time": {"column": "at"},
            }
        },
        "steps": {
            "asked": {"from": "s", "with_columns": {"x": "100 // n"}, "on_error": "divert"},
            "w": {
                "from": "asked",
                "key_by": ["k"],
                "window": {"tumbling": "10s"},
                "aggregate": {"c": "count(*)", "x": "sum(x)"},
            },
        },
        "sinks": {name: {"from": output, "memory": {"name": name}} for name, output in OUTPUTS.items()},
    }


def written(folder: Path) -> dict[str, Counter[str]]:
    pipeline = pipeline_from_dict(document(folder))
    with open_collected("sums") as sums, open_collected("late") as late, open_collected("bad") as bad:
        with deployed(Attempt(pipeline, folder)) as attempt:
            attempt.run_to_the_end()
        found = {"sums": sums, "late": late, "bad": bad}
        return {
            name: Counter(repr({**row, "reason": None}) for row in collected.rows())
            for name, collected in found.items()
        }


def broken(error: BaseException) -> Callable[..., Any]:
    def fails(*_: Any, **__: Any) -> Any:
        raise error

    return fails


@pytest.mark.parametrize("error", [OverflowError("date value out of range"), pl.exceptions.PanicException("panic")])
def test_rows_do_not_depend_on_reports(
    error: BaseException, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = written(tmp_path_factory.mktemp("whole"))
    FAILED.clear()
    for owner, name in REPORTERS.values():
        monkeypatch.setattr(owner, name, broken(error))
    assert written(tmp_path_factory.mktemp("broken")) == expected
    assert set(REPORTERS) <= set(FAILED), "each of them was asked"
    assert all(sum(rows.values()) for rows in expected.values())
