"""The memory of a task, measured in a process of its own: it does not follow its state."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from headrace.core.clock import SystemClock
from headrace.execution.planning import JobPlans
from headrace.spark.driver.replay import Replay, ReplayOutcome, ReplayWish
from headrace.spark.task.level_run import run_level
from headrace.spark.task.order import JobOrder
from support.spark.local_exchange import LocalExchange

KEYS = 3_000_000
BOUND = 16 << 20
MEASURED = """
import importlib, json, pickle, sys, threading
from pathlib import Path
from headrace.spark.task.level_run import run_level
from headrace.spark.task.order import JobOrder
from unit.spark.task.test_memory_bounded import stored, store

def resident_bytes():
    fields = dict(line.split(":") for line in Path("/proc/self/status").read_text().splitlines() if ":" in line)
    return {name: int(fields[name].split()[0]) << 10 for name in ("RssAnon", "RssFile")}

# what a task holds whatever its state: small, so that less state shows
for name in (
    "operators.window.state.PART_ROWS_MAX", "operators.window.state.ROWS_MERGED_MAX", "state.runs.PART_ROWS_MAX",
    "state.parquet.FILE_BYTES_MAX", "spark.task.output.staging_end.FILE_BYTES",
):
    module, _, constant = ("headrace." + name).rpartition(".")
    module = importlib.import_module(module)
    setattr(module, constant, getattr(module, constant) // 8)

peak, ended = resident_bytes(), threading.Event()
base = dict(peak)

def watch():
    while not ended.wait(0.02):
        for name, size in resident_bytes().items():
            peak[name] = max(peak[name], size)

watching = threading.Thread(target=watch)
watching.start()
order, level, partition = pickle.loads(Path(sys.argv[1]).read_bytes())
store(Path(sys.argv[3]), run_level(order, level, partition, (data for _, data in stored(Path(sys.argv[2])))))
ended.set()
watching.join()
print(json.dumps({name: peak[name] - base[name] for name in peak}))
"""
"""Runs one partition; prints the growth of its memory at the peak, in bytes."""


def store(path: Path, blobs: Iterable[tuple[int, bytes]]) -> None:
    """Writes blobs to a file."""
    with path.open("wb") as file:
        for blob in blobs:
            pickle.dump(blob, file)


def stored(path: Path) -> Iterator[tuple[int, bytes]]:
    """Reads the blobs of a file, one at a time."""
    with path.open("rb") as file:
        while file.peek(1):
            yield pickle.load(file)


class Measured(LocalExchange):
    """Runs each partition of the second level in a process of its own."""

    def __init__(self, folder: Path, state_bytes_max: int) -> None:
        super().__init__(1, parallelism=1, retried=0.0)
        self._folder = folder
        self._bytes = state_bytes_max
        self.growth: dict[str, int] = {}

    def run(self, order: JobOrder, widths: Sequence[int]) -> list[bytes]:
        """Two levels."""
        senders, readers = widths
        asked, rows, own, made = (self._folder / name for name in ("order", "rows", "own", "made"))
        order = replace(order, state_bytes_max=self._bytes)
        store(rows, (blob for sender in range(senders) for blob in run_level(order, 0, sender, ())))
        reports: list[bytes] = []
        for reader in range(readers):
            store(own, (blob for blob in stored(rows) if blob[0] == reader))
            asked.write_bytes(pickle.dumps((order, 1, reader)))
            command = [sys.executable, "-c", MEASURED, *map(str, (asked, own, made))]
            done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=_environment())
            for name, size in json.loads(done.stdout).items():
                self.growth[name] = max(size, self.growth.get(name, 0))
            reports += [data for _, data in stored(made)]
        return reports


def _environment() -> dict[str, str]:
    return {**os.environ, "POLARS_MAX_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)}


def document(step: dict[str, Any]) -> dict[str, Any]:
    """Rows with a key of their own each, in an hour."""
    columns = {"id": {"sequence": {"start": 1}}, "at": {"time": {"start": "2024-03-01T00:00:00Z", "step": "2ms"}}}
    return {
        "name": "many",
        "parallelism": 2,
        "sources": {
            "rows": {
                "generator": {"rows": KEYS, "columns": columns},
                "schema": {"id": "int64 not null", "at": "timestamp not null"},
                "time": {"column": "at"},
            }
        },
        "steps": {
            "counted": {"from": "rows", "key_by": ["id"], "aggregate": {"rows": "count(*)", "most": "max(at)"}, **step}
        },
        "sinks": {"out": {"from": "counted", "print": {}}},
    }


def run(folder: Path, step: dict[str, Any], state_bytes_max: int) -> tuple[dict[str, int], ReplayOutcome]:
    """A replay to a savepoint, its rows left where they are staged."""
    folder.mkdir()
    exchange = Measured(folder, state_bytes_max)
    wish = ReplayWish(
        job="replay-many-1",
        storage=str(folder / "storage"),
        parallelism=2,
        savepoint=str(folder / "savepoints"),
        publish=False,
    )
    outcome = Replay(JobPlans(document(step)), wish, exchange, SystemClock()).run()
    return exchange.growth, outcome


@pytest.mark.full
@pytest.mark.parametrize(
    "step",
    [{"window": {"tumbling": "4h"}}, {"window": {"tumbling": "1s"}}, {}],
    ids=["one-window", "windows", "running"],
)
def test_it_does_not_follow_the_state(step: dict[str, Any], tmp_path: Path) -> None:
    free, _ = run(tmp_path / "free", step, 1 << 40)
    bounded, _ = run(tmp_path / "bounded", step, BOUND)
    assert bounded["RssAnon"] < 0.75 * free["RssAnon"]
    assert bounded["RssFile"] < 96 << 20, "pages of local files count as memory until they are released"
