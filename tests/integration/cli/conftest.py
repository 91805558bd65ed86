from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from headrace.cli.app import app
from support.processes.running import RUN_TIMES, WAIT_SECONDS

Headrace = Callable[..., Result]
PATIENTLY = ("--seconds", str(WAIT_SECONDS))
"""For a preview that gets its rows."""

PIPELINE = """\
name: rides
sources:
  rides:
    files:
      path: {folder}/rides.jsonl
    format: json
    schema:
      station: string not null
      minutes: float64
      started: timestamp not null
    time:
      column: started
steps:
  finished:
    from: rides
    filter: minutes is not null
  hourly:
    from: finished
    key_by: [station]
    window:
      tumbling: 1h
    aggregate:
      rides: count(*)
      mean: avg(minutes)
sinks:
  out:
    from: hourly
    files:
      path: {folder}/out
    format: json
"""
ROWS = """\
{"station": "a", "minutes": 10, "started": "2024-05-01T08:05:00Z"}
{"station": "b", "minutes": 4.5, "started": "2024-05-01T08:10:00Z"}
{"station": "a", "minutes": null, "started": "2024-05-01T08:20:00Z"}
{"station": "a", "minutes": 20, "started": "2024-05-01T09:00:00Z"}
{"station": "a", "minutes": 1, "started": "2024-05-01T08:59:00Z"}
"""


@pytest.fixture(autouse=True)
def environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home of its own for every test, and runs with patience."""
    monkeypatch.setenv("HEADRACE_HOME", str(tmp_path / "home"))
    for name, text in RUN_TIMES.items():
        monkeypatch.setenv(name, text)


@pytest.fixture
def headrace() -> Iterator[Headrace]:
    """Runs a command in this process; the import path is put back, and what `init` made is imported afresh."""
    before = list(sys.path)
    sys.modules.pop("functions", None)

    def call(*arguments: str) -> Result:
        return CliRunner().invoke(app, list(arguments))

    yield call
    sys.path[:] = before
    sys.modules.pop("functions", None)


@pytest.fixture
def pipeline_text(tmp_path: Path) -> str:
    return PIPELINE.replace("{folder}", str(tmp_path))


@pytest.fixture
def pipeline(tmp_path: Path, pipeline_text: str) -> Path:
    """A pipeline file and its data: 5 rows, one filtered, one late."""
    (tmp_path / "rides.jsonl").write_text(ROWS)
    file = tmp_path / "pipeline.yaml"
    file.write_text(pipeline_text)
    return file
