"""A leader learns that its ledger is out of reach, also from storage that never answers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest

from headrace.checkpoint.stores.file import FileStore
from headrace.coordinator.store import watched_store
from headrace.coordinator.store.job_store import JobStore
from headrace.coordinator.store.ledger_store import LedgerStore
from headrace.coordinator.store.sealing import Sealer
from headrace.coordinator.store.watched_store import WatchedStore
from headrace.core.clock import SystemClock
from headrace.core.errors import ExternalError
from headrace.leadership.candidacy.candidacy import StorageLost, TermOver
from support.patience import WAIT_SECONDS

T = TypeVar("T")


class Storage(FileStore):
    """A folder that answers no listing while `away` is set: it refuses, or hangs until `back` is set."""

    def __init__(self, url: str, *, hangs: bool) -> None:
        super().__init__(url)
        self.hangs = hangs
        self.away, self.back = threading.Event(), threading.Event()
        self.asked = 0

    def list(self, prefix: str) -> list[str]:
        if self.away.is_set():
            self.asked += 1
            if self.hangs:
                self.back.wait(WAIT_SECONDS)
            raise ExternalError("storage is away", retry=True)
        return super().list(prefix)


async def blocking(work: Callable[[], T]) -> T:
    return await asyncio.to_thread(work)


@pytest.mark.parametrize("hangs", [False, True])
def test_a_ledger_that_is_out_of_reach_for_long_ends_a_term(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, hangs: bool
) -> None:
    monkeypatch.setattr(watched_store, "WATCH_S", 0.01)
    monkeypatch.setattr(watched_store, "STORAGE_LOST_S", 0.1)
    storage = Storage(str(tmp_path / "shared"), hangs=hangs)
    jobs = JobStore(tmp_path / "jobs", LedgerStore(storage, "w", SystemClock()), Sealer(tmp_path / "key"))
    jobs.take_over()

    async def test() -> None:
        told: asyncio.Queue[TermOver] = asyncio.Queue()
        watched = WatchedStore(jobs, blocking, told.put_nowait)
        watching = asyncio.create_task(watched.watch())
        storage.away.set()
        first = await asyncio.wait_for(told.get(), WAIT_SECONDS)
        # there may be no standby, for which the coordinator gives up: then it looks on, and asks once at a time
        second = await asyncio.wait_for(told.get(), WAIT_SECONDS)
        assert isinstance(first, StorageLost)
        assert isinstance(second, StorageLost)
        assert "out of reach for long" in first.reason
        assert storage.asked == 1 or not hangs
        watched.close()
        # a call that hangs delays no end
        await asyncio.wait_for(watching, WAIT_SECONDS)
        storage.back.set()

    asyncio.run(test())
