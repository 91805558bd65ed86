"""Two drivers of one command, at each moment at which one may overtake the other: what is decided is never lost, and no
driver deletes what a later one has made."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.stores.store import ObjectStore
from headrace.core.batch import visible_columns
from headrace.core.clock import SystemClock
from headrace.core.errors import ExternalError
from headrace.execution.planning import JobPlans
from headrace.spark.driver import driver_shell
from headrace.spark.driver import replay as replay_driver
from headrace.spark.driver.driver_shell import remove_files, remove_savepoints
from headrace.spark.driver.follow import Follow, FollowOutcome, FollowWish
from headrace.spark.driver.follow_sources import Discovery, FollowSources, Splits
from headrace.spark.driver.replay import Replay, ReplayOutcome, ReplayWish
from headrace.spark.driver_machine.config import new_savepoint
from headrace.spark.launch.bounds import up_to_now
from headrace.spark.task.order import JobOrder
from headrace_connectors.memory import Collected, open_collected
from support.spark.local_exchange import LocalExchange

ROWS, OUT = 400, "two-drivers-out"
PIPELINE: dict[str, Any] = {
    "name": "two",
    "parallelism": 2,
    "sources": {
        "rows": {
            "generator": {
                "rows": ROWS,
                "partitions": 2,
                "columns": {
                    "id": {"sequence": {"start": 0}},
                    "at": {"time": {"start": "2024-03-01T00:00:00Z", "step": "1s"}},
                },
            },
            "schema": {"id": "int64 not null", "at": "timestamp not null"},
            "time": {"column": "at"},
        }
    },
    "steps": {
        "minutes": {"from": "rows", "key_by": ["id"], "window": {"tumbling": "1m"}, "aggregate": {"n": "count(*)"}}
    },
    "sinks": {"out": {"from": "minutes", "memory": {"name": OUT}}},
}


def rows_of(collected: Collected) -> list[tuple[Any, ...]]:
    """Visible rows, sorted."""
    return sorted(row for batch in collected.batches() for row in batch.select(visible_columns(batch)).rows())


class Hooked(LocalExchange):
    """Calls `at_computed` once, when rows are staged and nothing is decided on them."""

    def __init__(self, at_computed: Callable[[], object]) -> None:
        super().__init__(3)
        self._hooks = [at_computed]

    def run(self, order: JobOrder, widths: Sequence[int]) -> list[bytes]:
        """All levels."""
        reports = super().run(order, widths)
        if self._hooks:
            self._hooks.pop()()
        return reports


class KilledError(Exception):
    """What ends a driver that dies."""


def die() -> None:
    raise KilledError


def replay(folder: Path, exchange: LocalExchange) -> ReplayOutcome:
    wish = ReplayWish(
        job="two-1", storage=str(folder / "storage"), parallelism=2, savepoint=str(folder / "savepoints"), final=True
    )
    return Replay(JobPlans(PIPELINE), wish, exchange, SystemClock()).run()


def require_published_once(folder: Path, out: Collected) -> None:
    outcome = replay(folder, LocalExchange(9))
    assert (outcome.rows_in, outcome.rows_out) == (ROWS, ROWS)
    assert [row[-1] for row in rows_of(out)] == [1] * ROWS
    assert outcome.savepoint is not None
    assert (Path(outcome.savepoint) / "manifest.json").is_file()


def test_a_driver_that_was_overtaken_while_it_computed_decides_nothing(tmp_path: Path) -> None:
    with open_collected(OUT) as out:
        with pytest.raises(ExternalError, match="another driver runs"):
            replay(tmp_path, Hooked(lambda: replay(tmp_path, LocalExchange(4))))
        require_published_once(tmp_path, out)


def test_a_driver_that_dies_after_it_has_overtaken_another_leaves_nothing_decided(tmp_path: Path) -> None:
    def overtaken() -> None:
        with pytest.raises(KilledError):
            replay(tmp_path, Hooked(die))

    with open_collected(OUT) as out:
        with pytest.raises(ExternalError, match="another driver runs"):
            replay(tmp_path, Hooked(overtaken))
        assert rows_of(out) == []
        require_published_once(tmp_path, out)


def test_a_driver_that_resolves_splits_while_another_decides_deletes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has read the journal before: there was no decision."""
    resolve, hooks = replay_driver.resolve_splits, [True]

    def slow(request: Any) -> Any:
        if hooks:
            hooks.clear()
            with pytest.raises(KilledError):
                replay(tmp_path, DiesAtPublishing(4))
        return resolve(request)

    monkeypatch.setattr(replay_driver, "resolve_splits", slow)
    with open_collected(OUT) as out:
        with pytest.raises(ExternalError, match="another driver runs"):
            replay(tmp_path, LocalExchange(5))
        require_published_once(tmp_path, out)


def test_a_driver_that_dies_before_it_owns_the_job_has_deleted_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It begins when rows are staged, and dies while it resolves splits: the first one decides."""

    def begun() -> None:
        with monkeypatch.context() as patch, pytest.raises(KilledError):
            patch.setattr(replay_driver, "resolve_splits", lambda _: die())
            replay(tmp_path, LocalExchange(4))

    with open_collected(OUT) as out:
        replay(tmp_path, Hooked(begun))
        require_published_once(tmp_path, out)


class DiesAtPublishing(LocalExchange):
    """Its driver has decided."""

    def each(self, orders: Sequence[bytes]) -> None:
        """Nothing is published."""
        die()


def test_a_replay_that_wakes_up_before_it_cleans_deletes_nothing_of_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hooks = [True]

    def asleep(store: ObjectStore, journal: Journal, attempt: int, now_ms: int) -> None:
        if hooks:
            hooks.clear()
            with pytest.raises(KilledError):
                replay(tmp_path, DiesAtPublishing(4))
        remove_files(store, journal, attempt, now_ms)

    monkeypatch.setattr(driver_shell, "remove_files", asleep)
    with open_collected(OUT) as out:
        with pytest.raises(ExternalError, match="another driver runs"):
            replay(tmp_path, LocalExchange(5))
        require_published_once(tmp_path, out)


class Scripted(FollowSources):
    """Each discovery shows 50 rows more of both partitions."""

    shown = 0

    def discover(self, known: Splits) -> Discovery:
        """The next."""
        found = super().discover(known)
        Scripted.shown += 50
        if Scripted.shown >= ROWS // 2:
            return found
        ranges: Splits = {
            source: tuple(split.model_copy(update={"stop": Scripted.shown}) for split in splits)
            for source, splits in found.ranges.items()
        }
        return Discovery(found.splits, ranges)


def follow(folder: Path, increments_max: int | None = None) -> FollowOutcome:
    plans = JobPlans(up_to_now(PIPELINE))
    wish = FollowWish(
        job="two", storage=str(folder / "job"), parallelism=2, interval_ms=1, increments_max=increments_max
    )
    sources = Scripted(dict(PIPELINE), plans.plan(2))
    return Follow(plans, sources, wish, LocalExchange(5), SystemClock(), pause=lambda _: False).run()


def test_a_follower_that_wakes_up_before_it_cleans_deletes_nothing_of_its_successor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Scripted.shown, hooks = 0, [True]

    def asleep(store: ObjectStore, journal: Journal, attempt: int, now_ms: int) -> None:
        if hooks:
            hooks.clear()
            follow(tmp_path, increments_max=2)
        remove_files(store, journal, attempt, now_ms)

    monkeypatch.setattr(driver_shell, "remove_files", asleep)
    with open_collected(OUT) as out:
        with pytest.raises(ExternalError, match="another driver runs"):
            follow(tmp_path)
        journal = JournalStore(open_store(str(tmp_path / "job")), "", "").load()
        newest = journal.checkpoints[-1].manifest
        there = set(open_store(str(tmp_path / "job")).list("state/"))
        assert {part.path for handle in newest.states for part in handle.files} <= there
        outcome = follow(tmp_path)
        assert outcome.finished
        assert [row[-1] for row in rows_of(out)] == [1] * ROWS


def test_only_what_earlier_attempts_have_made_is_deleted(tmp_path: Path) -> None:
    store = open_store(str(tmp_path / "job"))
    names = [f"{folder}/{attempt}-1-t-0-0abc.parquet" for folder in ("state", "staged") for attempt in (1, 2, 3)]
    for name in names:
        store.write(name, b"rows")
    (tmp_path / "job" / "state" / ".tmp-0abc").write_bytes(b"under way")
    remove_files(store, Journal(()), 2, SystemClock().now_ms())
    assert sorted(store.list("")) == sorted(name for name in names if "/1-" not in name)
    saved = str(tmp_path / "saved")
    made = {attempt: new_savepoint(saved, "job", 1, attempt, "0abc") for attempt in (1, 2, 3)}
    other = new_savepoint(saved, "job-2", 1, 1, "0abc")
    for url in (*made.values(), other):
        open_store(url).write("state/1-1-t-0-0abc.parquet", b"rows")
    decided = new_savepoint(saved, "job", 1, 1, "0def")
    open_store(decided).write("manifest.json", b"{}")
    remove_savepoints(open_store(saved), "job", 2, [decided])
    left = {path.name for path in Path(saved).iterdir() if any(path.rglob("*.*"))}
    assert left == {Path(url).name for url in (made[2], made[3], other, decided)}
