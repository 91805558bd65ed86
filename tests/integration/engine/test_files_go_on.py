"""State files over several attempts: the next one names what it restored unchanged, and writes what changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import polars as pl
import pytest

from headrace.checkpoint.manifest import FilePart
from headrace.checkpoint.paths import state_file
from headrace.spec.pipeline import Pipeline
from headrace.spec.reading.read import pipeline_from_dict
from headrace.state.restoring import ROWS_KEPT_MIN
from headrace_connectors.memory import Collected, Feed, open_collected, open_feed
from support.control.slots import Attempt, Snapshot, deployed
from support.processes.running import WAIT_SECONDS
from support.remembering import STATE, register

ROWS = 60_000


@pytest.fixture(autouse=True)
def _verb(monkeypatch: pytest.MonkeyPatch) -> None:
    register(monkeypatch.setitem)


@pytest.fixture
def feed() -> Iterator[Feed]:
    with open_feed("rows", 2) as opened:
        yield opened


@pytest.fixture
def collected() -> Iterator[Collected]:
    with open_collected("out") as opened:
        yield opened


def pipeline(parallelism: int) -> Pipeline:
    return pipeline_from_dict(
        {
            "name": "p",
            "parallelism": parallelism,
            "batch": {"max_rows": 200},
            "sources": {"rows": {"memory": {"name": "rows", "partitions": 2}, "schema": {"k": "int64 not null"}}},
            "steps": {"known": {"from": "rows", "remember": ["k"]}},
            "sinks": {"out": {"from": "known", "memory": {"name": "out"}}},
        }
    )


def add(feed: Feed, collected: Collected, keys: range) -> None:
    """Rows with these keys, of which none is known."""
    before = len(collected.rows())
    feed.append(pl.DataFrame({"k": list(keys)}))
    assert collected.wait_rows(before + len(keys), WAIT_SECONDS), f"{len(keys)} rows did not come"


def parts(snapshot: Snapshot, state: str = STATE) -> list[FilePart]:
    """Of the step's state, over all subtasks."""
    return [part for handle in snapshot.states if handle.state == state for part in handle.files]


def rows_of_attempts(snapshot: Snapshot, state: str = STATE) -> Counter[int]:
    """Attempt -> rows in its files."""
    found: Counter[int] = Counter()
    for part in parts(snapshot, state):
        about = state_file(part.path)
        assert about is not None, part.path
        found[about.attempt] += part.rows
    return found


def require_whole(snapshot: Snapshot, storage: Path) -> None:
    """Every file is there, and every row group is named once."""
    named = [(part.path, number) for part in parts(snapshot) for number in part.row_groups]
    assert len(named) == len(set(named))
    assert {part.path: part.bytes for part in parts(snapshot)} == {
        part.path: (storage / part.path).stat().st_size for part in parts(snapshot)
    }


def test_the_first_checkpoint_of_an_attempt_writes_what_changed(
    tmp_path: Path, feed: Feed, collected: Collected
) -> None:
    with deployed(Attempt(pipeline(2), tmp_path)) as attempt:
        add(feed, collected, range(ROWS))
        first = attempt.epoch()
        attempt.cancel()
    with deployed(Attempt(pipeline(2), tmp_path, number=2, restored=first)) as attempt:
        unchanged = attempt.epoch()
        assert rows_of_attempts(unchanged) == {1: ROWS}
        add(feed, collected, range(ROWS, ROWS + 10))
        second = attempt.epoch()
        assert rows_of_attempts(second) == {1: ROWS, 2: 10}
        attempt.cancel()
    # and so on: the third names files of both
    with deployed(Attempt(pipeline(2), tmp_path, number=3, restored=second)) as attempt:
        add(feed, collected, range(ROWS + 10, ROWS + 15))
        third = attempt.epoch()
        assert rows_of_attempts(third) == {1: ROWS, 2: 10, 3: 5}
        require_whole(third, tmp_path)
        attempt.cancel()


def test_after_a_rescale_only_row_groups_that_are_cut_are_written_anew(
    tmp_path: Path, feed: Feed, collected: Collected
) -> None:
    with deployed(Attempt(pipeline(2), tmp_path)) as attempt:
        add(feed, collected, range(ROWS))
        snapshot = attempt.epoch()
        attempt.cancel()
    for number, parallelism in enumerate((3, 1, 2), start=2):
        with deployed(Attempt(pipeline(parallelism), tmp_path, number=number, restored=snapshot)) as attempt:
            snapshot = attempt.epoch()
            attempt.cancel()
        require_whole(snapshot, tmp_path)
        assert sum(rows_of_attempts(snapshot).values()) == ROWS
        # a subtask cuts at most two row groups of each chunk
        assert rows_of_attempts(snapshot)[number] < ROWS / 2
        if parallelism == 3:
            subtasks = Counter(path for handle in snapshot.states for path in {part.path for part in handle.files})
            assert max(subtasks.values()) > 1, "subtasks share a file"
    with deployed(Attempt(pipeline(2), tmp_path, number=9, restored=snapshot)) as attempt:
        feed.append(pl.DataFrame({"k": list(range(ROWS))}))
        add(feed, collected, range(ROWS, ROWS + 1))
        feed.end()
        attempt.run_to_the_end()
    assert len(collected.rows()) == ROWS + 1, "every key was known"


def test_files_of_others_are_copied(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    savepoint, job = str(tmp_path / "savepoint"), tmp_path / "job"
    with deployed(Attempt(pipeline(2), tmp_path / "before")) as attempt:
        add(feed, collected, range(1000))
        snapshot = attempt.epoch(savepoint=savepoint)
        attempt.cancel()
    with deployed(Attempt(pipeline(2), job, number=4, restored=snapshot, from_savepoint=True)) as attempt:
        copied = attempt.epoch()
        assert rows_of_attempts(copied) == {4: 1000}
        again = attempt.epoch(savepoint=str(tmp_path / "again"))
        attempt.cancel()
    require_whole(copied, job)
    # a savepoint is complete in itself
    assert sum(part.rows for handle in again.savepoint for part in handle.files) == 1000
    assert all(part.path.startswith(str(tmp_path / "again")) for handle in again.savepoint for part in handle.files)


def aggregates(parallelism: int) -> Pipeline:
    """A running aggregate and a window over the same rows, with an aggregate whose values are kept."""
    by_key = {"from": "rows", "key_by": ["k"], "aggregate": {"n": "count(*)", "different": "count(distinct k)"}}
    day = by_key | {"window": {"tumbling": "1d"}, "aggregate": {"n": "count(*)", "total": "sum(k)"}}
    return pipeline_from_dict(
        {
            "name": "p",
            "parallelism": parallelism,
            "sources": {
                "rows": {
                    "memory": {"name": "rows", "partitions": 2},
                    "schema": {"k": "int64 not null", "at": "timestamp not null"},
                    "time": {"column": "at"},
                }
            },
            "steps": {"totals": by_key, "daily": day},
            "sinks": {"out": {"from": "totals", "memory": {"name": "out"}}, "days": {"from": "daily", "print": {}}},
        }
    )


def test_aggregates_name_what_they_restored(tmp_path: Path, feed: Feed, collected: Collected) -> None:
    def add_rows(keys: range, seen: int) -> None:
        feed.append(pl.DataFrame({"k": list(keys), "at": [datetime(2026, 1, 1, tzinfo=UTC)] * len(keys)}))
        assert collected.wait_rows(seen + len(keys), WAIT_SECONDS), f"{len(keys)} rows did not come"

    with deployed(Attempt(aggregates(2), tmp_path)) as attempt:
        add_rows(range(ROWS), 0)
        first = attempt.epoch()
        attempt.cancel()
    states = {handle.state for handle in first.states} - {"time"}
    assert {state.partition("_")[0] for state in states} == {"groups", "distinct", "windows"}
    with deployed(Attempt(aggregates(2), tmp_path, number=2, restored=first)) as attempt:
        add_rows(range(10), len(collected.rows()))
        second = attempt.epoch()
        attempt.cancel()
    for state in states:
        assert sum(rows_of_attempts(first, state).values()) >= ROWS
        # a small frame of each of the two subtasks may be written again
        assert rows_of_attempts(second, state)[1] >= ROWS - 2 * ROWS_KEPT_MIN
        assert rows_of_attempts(second, state)[2] <= 2 * ROWS_KEPT_MIN + 10
