"""What an increment reads and writes of state follows its input: bytes through the store, for small and large state."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.paths import STATE
from headrace.checkpoint.stores.file import FileStore
from headrace.checkpoint.stores.store import Data
from headrace.core.clock import SystemClock
from headrace.execution.planning import JobPlans
from headrace.spark.driver.follow import Follow, FollowWish
from headrace.spark.driver.follow_sources import Discovery, FollowSources, Splits
from headrace.spark.launch.bounds import up_to_now
from headrace.spark.task.order import STATE_BYTES_MAX
from headrace_connectors.memory import open_collected
from support.spark.local_exchange import LocalExchange

SMALL, LARGE = 1_000, 4_000
"""Keys that the first increment brings; every row has a key of its own."""
STEP = 10
STEPS = 8

WINDOWED = {"window": {"tumbling": "1d"}, "aggregate": {"rows": "count(*)", "kinds": "count(distinct id % 3)"}}
SLIDING = {"window": {"sliding": "1m", "every": "10s"}, "aggregate": {"rows": "count(*)"}}
RUNNING = {"aggregate": {"rows": "count(*)", "kinds": "count(distinct id % 3)"}}


@dataclass
class Traffic:
    """Bytes of state files."""

    read: int = 0
    written: int = 0


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[Traffic]:
    """Counts what is read and written inside."""
    traffic = Traffic()
    read: Callable[[FileStore, str], bytes] = FileStore.read
    write: Callable[[FileStore, str, Data], None] = FileStore.write

    def counting_read(store: FileStore, path: str) -> bytes:
        data = read(store, path)
        if STATE in f"{store.url}/{path}":
            traffic.read += len(data)
        return data

    def counting_write(store: FileStore, path: str, data: Data) -> None:
        if STATE in f"{store.url}/{path}":
            traffic.written += len(data)
        write(store, path, data)

    with monkeypatch.context() as patch:
        patch.setattr(FileStore, "read", counting_read)
        patch.setattr(FileStore, "write", counting_write)
        yield traffic


class SteppedSources(FollowSources):
    """A generator that has made so many rows by now."""

    made: int

    def discover(self, known: Splits) -> Discovery:
        """Up to there."""
        found = super().discover(known)
        ranges = {
            source: tuple(split.model_copy(update={"stop": self.made}) for split in splits)
            for source, splits in found.ranges.items()
        }
        return Discovery(found.splits, ranges)


def pipeline(step: dict[str, Any]) -> dict[str, Any]:
    """Rows with keys of their own, one a ms."""
    return {
        "name": "steps",
        "parallelism": 2,
        "sources": {
            "rows": {
                "generator": {
                    "rows": 1_000_000,
                    "columns": {
                        "id": {"sequence": {"start": 1}},
                        "at": {"time": {"start": "2024-03-01T00:00:00Z", "step": "1ms"}},
                    },
                },
                "schema": {"id": "int64 not null", "at": "timestamp not null"},
                "time": {"column": "at"},
            }
        },
        "steps": {"counted": {"from": "rows", "key_by": ["id"], **step}},
        "sinks": {"out": {"from": "counted", "memory": {"name": "steps-out"}}},
    }


def steps_behind(keys: int, step: dict[str, Any], folder: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Traffic, int]:
    """What small increments read and write after a first one of so many keys, and the rows of state before them."""
    limits = pipeline(step)
    plans = JobPlans(up_to_now(limits))
    sources = SteppedSources(limits, plans.plan(2))
    sources.made = keys

    def increment(count: int) -> None:
        wish = FollowWish(job="steps", storage=str(folder), parallelism=2, interval_ms=1, increments_max=count)

        def more(_: int) -> bool:
            sources.made += STEP
            return False

        Follow(plans, sources, wish, LocalExchange(1, retried=0.0), SystemClock(), pause=more).run()

    with open_collected("steps-out"):
        increment(1)
        (record,) = JournalStore(FileStore(str(folder)), "", "").load().checkpoints
        state = sum(handle.rows for handle in record.manifest.states)
        sources.made += STEP
        with counted(monkeypatch) as traffic:
            increment(STEPS)
    return traffic, state


@pytest.mark.parametrize(
    "state_bytes_max",
    [STATE_BYTES_MAX, pytest.param(40_000, marks=pytest.mark.full, id="on-disk")],
)
@pytest.mark.parametrize("step", [WINDOWED, SLIDING, RUNNING], ids=["windowed", "sliding", "running"])
def test_it_does_not_grow_with_the_state(
    step: dict[str, Any], state_bytes_max: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headrace.operators.aggregation.running.BUCKET_ROWS_MAX", 64)
    monkeypatch.setattr("headrace.state.table.ROWS_RECENT_MAX", 256)
    monkeypatch.setattr("headrace.state.runs.MOVED_BYTES_MIN", 1)
    monkeypatch.setattr("support.spark.local_exchange.STATE_BYTES", [state_bytes_max])
    small, before = steps_behind(SMALL, step, tmp_path / "small", monkeypatch)
    large, state = steps_behind(LARGE, step, tmp_path / "large", monkeypatch)
    assert state > 3 * before
    assert small.written > 0
    assert large.read < 1.5 * small.read + 1_000
    assert large.written < 1.5 * small.written + 1_000
