"""A pipeline that is followed while its storage fails at one record: what the journal says afterwards, and what is out.

The store is a real folder; one call of it fails, or comes through late.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from headrace.checkpoint.job_folder.journal_store import JournalStore
from headrace.checkpoint.journal.journal import Journal
from headrace.checkpoint.journal.records import CheckpointRecord, FinishedRecord
from headrace.checkpoint.paths import STAGED
from headrace.checkpoint.stores.file import FileStore
from headrace.checkpoint.stores.opening import open_store
from headrace.checkpoint.stores.store import Data
from headrace.core.batch import visible_columns
from headrace.core.clock import SystemClock
from headrace.core.errors import ExternalError
from headrace.execution.planning import JobPlans
from headrace.spark.driver.follow import Follow, FollowOutcome, FollowWish
from headrace.spark.driver.follow_sources import Discovery, FollowSources, Splits
from headrace.spark.launch.bounds import up_to_now
from headrace.spark.launch.follow import give_up
from headrace_connectors.memory import Collected, open_collected
from support.spark.local_exchange import LocalExchange

ROWS, OUT = 40, "follow-failures-out"
PIPELINE: dict[str, Any] = {
    "name": "failing",
    "sources": {
        "rows": {
            "generator": {"rows": ROWS, "columns": {"id": {"sequence": {"start": 0}}}},
            "schema": {"id": "int64 not null"},
        }
    },
    "sinks": {"out": {"from": "rows", "memory": {"name": OUT}}},
}
Put = Callable[[FileStore, str, Data], bool]


class Halves(FollowSources):
    """Half of the rows at the first discovery, all of them later."""

    looks = 0

    def discover(self, known: Splits) -> Discovery:
        """The next."""
        found = super().discover(known)
        self.looks += 1
        if self.looks > 1:
            return found
        half = (split.model_copy(update={"stop": ROWS // 2}) for split in found.ranges["rows"])
        return Discovery(found.splits, {"rows": tuple(half)})


def follow(folder: Path, *, savepoint: bool = False, asked: Callable[[], bool] = lambda: False) -> FollowOutcome:
    plans = JobPlans(up_to_now(PIPELINE))
    wish = FollowWish(
        job="failing",
        storage=str(folder / "job"),
        parallelism=1,
        interval_ms=1,
        savepoint=str(folder / "saved") if savepoint else None,
    )
    sources = Halves(dict(PIPELINE), plans.plan(1))
    exchange = LocalExchange(1, retried=0.0)
    return Follow(plans, sources, wish, exchange, SystemClock(), pause=lambda _: asked()).run()


def journal(folder: Path) -> Journal:
    return JournalStore(open_store(str(folder / "job")), "", "").load()


def ids(out: Collected) -> list[int]:
    return sorted(row[0] for batch in out.batches() for row in batch.select(visible_columns(batch)).rows())


class Refusing:
    """A put of the nth record of a kind that is refused, once."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: str, number: int = 1) -> None:
        self._kind = f'"kind":"{kind}"'.encode()
        self._left = number
        self.refused = False
        put: Put = FileStore.put_if_absent

        def refusing(store: FileStore, path: str, data: Data) -> bool:
            if self._kind in bytes(data):
                self._left -= 1
                if not self._left:
                    self.refused = True
                    raise ExternalError("storage is away", retry=True)
            return put(store, path, data)

        monkeypatch.setattr(FileStore, "put_if_absent", refusing)


def test_a_job_is_finished_when_its_record_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refusing = Refusing(monkeypatch, "finished")
    with open_collected(OUT) as out:
        outcome = follow(tmp_path)
        assert ids(out) == list(range(ROWS))
    assert refusing.refused
    assert outcome.finished
    assert journal(tmp_path).finished is not None


def test_a_savepoint_is_not_handed_out_behind_the_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The last epoch's `committed` fails, and the user asks to stop before it is tried again."""
    refusing = Refusing(monkeypatch, "committed", 2)
    with open_collected(OUT):
        outcome = follow(tmp_path, savepoint=True, asked=lambda: refusing.refused)
    records = journal(tmp_path).records
    assert isinstance(records[-1], FinishedRecord)
    assert outcome.savepoint == records[-1].savepoint
    assert outcome.epoch == 2
    assert [each.manifest.epoch for each in records if isinstance(each, CheckpointRecord)][-1] == 2


def test_a_put_that_comes_through_late_is_read_and_not_repeated(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint's record is put when the driver has read the journal anew, just before its next attempt's record."""
    late: list[tuple[str, bytes]] = []
    put: Put = FileStore.put_if_absent
    seen: set[str] = set()

    def delaying(store: FileStore, path: str, data: Data) -> bool:
        if b'"kind":"checkpoint"' in bytes(data) and "late" not in seen:
            seen.add("late")
            late.append((path, bytes(data)))
            raise ExternalError("no answer from storage", retry=True)
        while late:
            put(store, *late.pop())
        return put(store, path, data)

    monkeypatch.setattr(FileStore, "put_if_absent", delaying)
    with open_collected(OUT) as out:
        assert follow(tmp_path).finished
        assert ids(out) == list(range(ROWS))
    numbers = [each.manifest.epoch for each in journal(tmp_path).checkpoints]
    assert numbers == sorted(set(numbers))


def test_a_job_that_is_given_up_while_it_waits_to_be_tried_again_is_not_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    refusing = Refusing(monkeypatch, "committed", 2)

    def given_up() -> bool:
        if refusing.refused:
            give_up("failing", open_store(str(tmp_path / "job")), SystemClock())
        return False

    with open_collected(OUT), pytest.raises(ExternalError, match="was given up"):
        follow(tmp_path, asked=given_up)


class KilledError(BaseException):
    """What ends a driver's process."""


def test_staged_rows_of_a_committed_epoch_are_deleted_by_the_next_driver(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    delete = FileStore.delete

    def dying(store: FileStore, paths: Iterable[str]) -> None:
        listed = list(paths)
        if any(path.startswith(STAGED) for path in listed):
            raise KilledError
        delete(store, listed)

    with open_collected(OUT) as out:
        with monkeypatch.context() as patch, pytest.raises(KilledError):
            patch.setattr(FileStore, "delete", dying)
            follow(tmp_path)
        store = open_store(str(tmp_path / "job"))
        (left,) = store.list(STAGED)
        follow(tmp_path, asked=lambda: True)
        assert left not in store.list(STAGED)
        assert ids(out)[: ROWS // 2] == list(range(ROWS // 2))
