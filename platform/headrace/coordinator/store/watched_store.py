"""The job store as the event loop uses it: its calls run in threads, and who has lost the ledger learns it.

A coordinator learns it by its next write, by a look every few seconds, or because the ledger stays out of reach.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any, Protocol, TypeVar

from headrace.coordinator.store.job_store import JobStore
from headrace.coordinator.store.ledger_store import LedgerReplacedError
from headrace.core.errors import ExternalError
from headrace.leadership.candidacy.candidacy import Replaced, StorageLost, TermOver

LOG = logging.getLogger("headrace.coordinator")
WATCH_S = 5.0
"""How often a coordinator that writes nothing looks whether another one has taken its jobs over."""
STORAGE_LOST_S = 60.0
"""After this time without its ledger a coordinator that has standbys gives up: another host may reach the storage. A
shorter outage, which all hosts have at the same time, stops no job."""
T = TypeVar("T")


class Blocking(Protocol):
    """Runs a function in a thread."""

    def __call__(self, work: Callable[[], T]) -> Coroutine[Any, Any, T]:
        """Returns what `work` returns."""
        ...


class WatchedStore:
    """One coordinator's job store. on_over: called when another coordinator has taken the jobs over, or the ledger has
    been out of reach for long. Belongs to the event loop."""

    def __init__(self, store: JobStore, blocking: Blocking, on_over: Callable[[TermOver], None]) -> None:
        self._store = store
        self._blocking = blocking
        self._on_over = on_over
        self._closing = asyncio.Event()
        self._reached_s = 0.0
        """When the last look began that was answered, by the loop's clock."""
        self._trouble = "storage does not answer"

    async def call(self, work: Callable[[], T]) -> T:
        """Runs a call of the job store in a thread."""
        try:
            return await self._blocking(work)
        except LedgerReplacedError as error:
            self._on_over(Replaced(error.message))
            raise

    async def watch(self) -> None:
        """Looks every few seconds whether this coordinator still has the ledger, until `close`."""
        loop = asyncio.get_running_loop()
        self._reached_s = loop.time()
        closing, looking = asyncio.create_task(self._closing.wait()), asyncio.create_task(self._look_again_and_again())
        try:
            while not (closing.done() or looking.done()):
                await asyncio.wait({closing, looking}, timeout=WATCH_S, return_when=asyncio.FIRST_COMPLETED)
                # A look that hangs counts as one that failed: a client of storage that is cut off may try for minutes.
                if not closing.done() and loop.time() - self._reached_s >= STORAGE_LOST_S:
                    self._on_over(StorageLost(f"its ledger has been out of reach for long: {self._trouble}"))
                    # it goes on if there is no standby
                    self._reached_s = loop.time()
            if looking.done():
                looking.result()
        finally:
            closing.cancel()
            looking.cancel()

    async def _look_again_and_again(self) -> None:
        """Returns when another coordinator has the ledger."""
        while True:
            await asyncio.sleep(WATCH_S)
            asked_s = asyncio.get_running_loop().time()
            try:
                await self.call(self._store.require_own)
                self._reached_s = asked_s
            except LedgerReplacedError:
                return
            except ExternalError as error:
                self._trouble = error.message
                LOG.warning("whether another coordinator leads is unknown: %s", error.message)

    def close(self) -> None:
        """Ends the watch."""
        self._closing.set()
