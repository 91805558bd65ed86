"""A job's way to its checkpoint storage: one thing after the other, off the event loop, tried again while that helps.

Owns order, retries and time limits; what is written is the machine's decision, what a put means the journal's
(`checkpoint`).

A call that hangs is never made a second time beside the first: a journal is used by one thread at a time. So the lane
waits for it, and says so, for as long as the job runs. Once the job has to end, the call is left after a while; what is
queued behind it fails until it returns.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Any, TypeVar

from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.retry import Backoff

LOG = logging.getLogger("headrace.coordinator")
T = TypeVar("T")

BACKOFF = Backoff(first_s=0.2, max_s=5.0)
WAITING_MAX = 1_000
CLOSE_S = 30.0
"""How long the end of a job waits for storage."""
SILENT_S = 30.0
"""After so long without an answer people are told."""
ANSWER_S = 10.0
"""How long a call that is under way may take once the job has to end."""


@dataclass(frozen=True, slots=True)
class _Work:
    """`patience_s`: how long it is tried again; None: for as long as the job does not have to end."""

    what: str
    patience_s: float | None
    run: Callable[[], object]
    done: Callable[[object], None]
    failed: Callable[[Exception], None]


class StorageLane:
    """Runs work in the order given. `done` and `failed` are called in the loop."""

    def __init__(self, executor: Executor, name: str) -> None:
        self._executor = executor
        self._name = name
        self._queue: asyncio.Queue[_Work] = asyncio.Queue(WAITING_MAX)
        self._patience_s: float | None = None
        self._hurried = asyncio.Event()
        self._call: asyncio.Future[object] | None = None
        """The newest one. One that hangs is still here when the next work comes."""
        self._task = asyncio.create_task(self._run(), name=f"storage of {name}")
        self.trouble: str | None = None
        """What is being tried again just now, for people."""

    def put(
        self,
        what: str,
        run: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
        *,
        patience_s: float | None = None,
    ) -> None:
        """Queues work: `run` in a thread; errors that may pass are tried again for `patience_s` (None: see `hurry`).

        One of `done` and `failed` is called; both where `done` raises.

        What others can do without must not be tried for ever: everything behind it waits.
        """
        self._queue.put_nowait(_Work(what, patience_s, run, done, failed))  # type: ignore[arg-type]

    def hurry(self, patience_s: float) -> None:
        """From now on nothing is tried for longer than this: the job is to end."""
        self._patience_s = patience_s
        self._hurried.set()

    async def close(self) -> None:
        """Finishes what is queued, each for as long as it is worth, and ends; storage that never answers is left."""
        self.hurry(0.0)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._queue.join()
        self._task.cancel()

    async def _run(self) -> None:
        while True:
            work = await self._queue.get()
            try:
                await self._attempt(work)
            finally:
                self.trouble = None
                self._queue.task_done()

    async def _attempt(self, work: _Work) -> None:
        loop = asyncio.get_running_loop()
        delay_s, begun_s = 0.0, loop.time()
        while True:
            try:
                result = await self._called(work)
            except HeadraceError as error:
                if not error.retry or self._impatient(work, loop.time() - begun_s):
                    self._fail(work, error)
                    return
                if self.trouble is None:
                    LOG.warning("%s: %s: %s; trying again", self._name, work.what, error.message)
                self.trouble = f"{work.what}: {error.message}"
            except Exception as error:  # the shell's edge: whatever it is, the job hears of it
                LOG.exception("%s: %s", self._name, work.what)
                self._fail(work, error)
                return
            else:
                self._finish(work, result)
                return
            delay_s = BACKOFF.next_s(delay_s)
            await self._pause(delay_s)

    async def _called(self, work: _Work) -> object:
        """Raises what `work` raises, and ExternalError where storage does not answer while the job has to end."""
        if self._call is not None and not self._call.done():
            raise ExternalError("storage has not answered what it was asked before")
        self._call = asyncio.get_running_loop().run_in_executor(self._executor, work.run)
        await self._answer(self._call, work.what)
        return self._call.result()

    async def _answer(self, call: asyncio.Future[object], what: str) -> None:
        """Waits until the call has returned or raised. Raises ExternalError where it is left."""
        hurried = asyncio.ensure_future(self._hurried.wait())
        either: set[asyncio.Future[Any]] = {call, hurried}
        try:
            await asyncio.wait(either, timeout=SILENT_S, return_when=asyncio.FIRST_COMPLETED)
            if not call.done() and not hurried.done():
                LOG.warning("%s: %s: storage has not answered for %g s", self._name, what, SILENT_S)
                self.trouble = f"{what}: storage has not answered for more than {SILENT_S:g} s"
                await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            hurried.cancel()
        if not call.done():
            await asyncio.wait({call}, timeout=ANSWER_S)
        if not call.done():
            call.add_done_callback(_drop)
            raise ExternalError(f"storage has not answered for {ANSWER_S:g} s, and the job has to end")

    def _finish(self, work: _Work, result: object) -> None:
        try:
            work.done(result)
        except Exception as error:
            # the lane goes on: records of the job wait behind
            LOG.exception("%s: %s is done, and its result cannot be used", self._name, work.what)
            self._fail(work, error)

    def _fail(self, work: _Work, error: Exception) -> None:
        try:
            work.failed(error)
        except Exception:
            LOG.exception("%s: %s failed (%s), and that cannot be reported", self._name, work.what, error)

    def _impatient(self, work: _Work, tried_s: float) -> bool:
        patiences_s = [each for each in (work.patience_s, self._patience_s) if each is not None]
        return bool(patiences_s) and tried_s >= min(patiences_s)

    async def _pause(self, delay_s: float) -> None:
        if self._hurried.is_set():
            await asyncio.sleep(min(delay_s, 0.5))
            return
        try:
            async with asyncio.timeout(delay_s):
                await self._hurried.wait()
        except TimeoutError:
            pass


def _drop(call: asyncio.Future[object]) -> None:
    """Nobody waits for it any more; asyncio would report an error that nobody has looked at."""
    if not call.cancelled():
        call.exception()
