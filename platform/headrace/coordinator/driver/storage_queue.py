"""The storage queue of a job: blocking calls to its checkpoint storage. They run one after the other, in a thread, and
transient failures are retried.

Owns order, retries and time limits. The machine decides what is written; the journal (`checkpoint.journal`) decides
what the result of a put means.

A call that hangs is never repeated while it hangs, because only one thread at a time may use a journal. While the job
runs, the queue waits for the call, logs that, and shows it to users (`trouble`). Once the job has to end (`hurry`), the
queue waits for at most `ANSWER_S` more. Work that is queued behind the hanging call fails until the call returns.
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
"""How long `close` waits for the queued work, in seconds."""
SILENT_S = 30.0
"""Time without a response, in seconds, after which the queue logs a warning and sets `trouble`."""
ANSWER_S = 10.0
"""How long a call in progress may still take once the job has to end, in seconds."""


@dataclass(frozen=True, slots=True)
class _Work:
    """One piece of work. patience_s: how long transient failures are retried; None: until `hurry` is called."""

    what: str
    patience_s: float | None
    run: Callable[[], object]
    done: Callable[[object], None]
    failed: Callable[[Exception], None]


class StorageQueue:
    """Runs work in the order of `put`. `done` and `failed` are called in the event loop."""

    def __init__(self, executor: Executor, name: str) -> None:
        self._executor = executor
        self._name = name
        self._queue: asyncio.Queue[_Work] = asyncio.Queue(WAITING_MAX)
        self._patience_s: float | None = None
        self._hurried = asyncio.Event()
        self._call: asyncio.Future[object] | None = None
        """The newest call. A call that hangs is still here, and not done, when the next work begins."""
        self._task = asyncio.create_task(self._run(), name=f"storage of {name}")
        self.trouble: str | None = None
        """The operation that is being retried or hangs now, with its error, for users; None: none."""

    def put(
        self,
        what: str,
        run: Callable[[], T],
        done: Callable[[T], None],
        failed: Callable[[Exception], None],
        *,
        patience_s: float | None = None,
    ) -> None:
        """Queues work: calls `run` in a thread, then `done` with its result, or `failed` with its error. If `done`
        raises, `failed` is called, too.

        what         names the operation, for logs and users
        patience_s   how long transient errors are retried; None: until `hurry` is called. Work that the job does not
                     depend on needs a limit, because all work behind it waits
        """
        self._queue.put_nowait(_Work(what, patience_s, run, done, failed))  # type: ignore[arg-type]

    def hurry(self, patience_s: float) -> None:
        """Bounds the retries of all work, queued and future, to `patience_s`, because the job is to end."""
        self._patience_s = patience_s
        self._hurried.set()

    async def close(self) -> None:
        """Runs the queued work, each call without retries, and ends. Returns after at most `CLOSE_S`, even if a call
        hangs."""
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
            except Exception as error:  # an unexpected error must reach the machine, which waits for this work
                LOG.exception("%s: %s", self._name, work.what)
                self._fail(work, error)
                return
            else:
                self._finish(work, result)
                return
            delay_s = BACKOFF.next_s(delay_s)
            await self._pause(delay_s)

    async def _called(self, work: _Work) -> object:
        """The result of `work`. Raises the error that it raises; ExternalError if the previous call still hangs, or if
        storage does not respond while the job has to end."""
        if self._call is not None and not self._call.done():
            raise ExternalError("the previous storage call has not returned")
        self._call = asyncio.get_running_loop().run_in_executor(self._executor, work.run)
        await self._answer(self._call, work.what)
        return self._call.result()

    async def _answer(self, call: asyncio.Future[object], what: str) -> None:
        """Waits until the call has returned or raised. Raises ExternalError if the job has to end, and the call takes
        longer than `ANSWER_S` after that."""
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
            # the queue must continue: records of the job are queued behind this work
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
    """Reads the error of a call whose result is not needed any more, so that asyncio does not log it as unhandled."""
    if not call.cancelled():
        call.exception()
