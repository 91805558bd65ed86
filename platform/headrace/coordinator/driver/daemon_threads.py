"""An executor of daemon threads, which do not delay the end of the process.

`ThreadPoolExecutor` joins its threads when the interpreter exits: one hanging storage call would keep the process alive
forever.
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
    """Runs work in up to `threads_max` threads, in submission order. Safe to use from several threads."""

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
        """Accepts no more work; queued work is still done. Never waits: `wait` is ignored, as is `cancel_futures`."""
        with self._lock:
            if not self._closed:
                self._closed = True
                for _ in range(self._threads):
                    self._queue.put(None)

    def _serve(self) -> None:
        while (settle := self._queue.get()) is not None:
            settle()
            del settle  # a closure may hold megabytes: it must not live until the next work arrives

    def _settle(self, future: Future[T], work: Callable[[], T]) -> None:
        if not future.set_running_or_notify_cancel():
            self._finished()
            return
        try:
            result = work()
        except BaseException as error:  # the future raises it in the thread that waits
            self._finished()
            future.set_exception(error)
        else:
            # count first: a caller that has the result must find this thread free, or it would start another one
            self._finished()
            future.set_result(result)

    def _finished(self) -> None:
        with self._lock:
            self._unfinished -= 1
