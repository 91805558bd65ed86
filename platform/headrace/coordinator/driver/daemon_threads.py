"""An executor whose threads do not hold up the end of the process.

Those of `ThreadPoolExecutor` are joined when the interpreter ends: one call to storage that hangs would keep the
process for ever.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from queue import SimpleQueue
from typing import ParamSpec, TypeVar

T = TypeVar("T")
P = ParamSpec("P")
_Work = Callable[[], None]


class DaemonThreads(Executor):
    """Runs work in up to `threads_max` threads, in the order given. Safe to use from several threads."""

    def __init__(self, threads_max: int, name: str) -> None:
        self._threads_max = threads_max
        self._name = name
        self._lock = threading.Lock()
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._threads = 0
        self._unfinished = 0
        self._closed = False

    def submit(self, work: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Queues work. Raises RuntimeError after `shutdown`."""
        future: Future[T] = Future()
        with self._lock:
            if self._closed:
                raise RuntimeError(f"{self._name}: no work is taken after shutdown")
            self._unfinished += 1
            self._queue.put(partial(self._settle, future, partial(work, *args, **kwargs)))
            if self._unfinished > self._threads and self._threads < self._threads_max:
                self._threads += 1
                threading.Thread(target=self._serve, name=self._name, daemon=True).start()
        return future

    def shutdown(self, wait: bool = False, *, cancel_futures: bool = False) -> None:  # noqa: FBT001, FBT002 - its form
        """Takes no more work; what is queued is still done. Waits for nothing, whatever `wait` says."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in range(self._threads):
                    self._queue.put(None)

    def _serve(self) -> None:
        while (settle := self._queue.get()) is not None:
            settle()
            del settle  # what it refers to is not kept until the next work comes

    def _settle(self, future: Future[T], work: Callable[[], T]) -> None:
        if not future.set_running_or_notify_cancel():
            self._finished()
            return
        try:
            result = work()
        except BaseException as error:  # whoever waits for it raises it
            self._finished()
            future.set_exception(error)
        else:
            # first: whoever has the result finds this thread free for more
            self._finished()
            future.set_result(result)

    def _finished(self) -> None:
        with self._lock:
            self._unfinished -= 1
