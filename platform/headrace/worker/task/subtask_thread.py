"""The thread of a subtask, with the reader, operators and writers that only this thread uses.

The parts are closed after the thread has ended; a part that fails to close does not keep the others open. The parts of
a thread that does not end (its client waits for a broker, say) stay open: closing a native client while a thread uses
it could crash the process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol


class Part(Protocol):
    """A part of a subtask that must be closed: a reader, an operator or a writer."""

    def close(self) -> None:
        """Releases the part's resources. Idempotent."""
        ...


@dataclass(slots=True)
class SubtaskThread:
    """One subtask. `parts` grows while it is opened; `run` is set when it is complete.

    leave   called in the thread after `run`, whether or not it raised: waits until no other thread uses the parts
    """

    name: str
    parts: Sequence[Part]
    run: Callable[[], None] | None = None
    leave: Callable[[], None] | None = None
    _thread: threading.Thread | None = None

    def start(self, guard: Callable[[Callable[[], None]], None]) -> None:
        """Runs `guard(run)` in a thread of its own, which does not keep the process alive."""
        assert self.run is not None, "a subtask is opened before it starts"
        thread = threading.Thread(target=self._main, args=(guard, self.run), name=self.name, daemon=True)
        thread.start()
        self._thread = thread

    def _main(self, guard: Callable[[Callable[[], None]], None], run: Callable[[], None]) -> None:
        # the guard reports an error of `run` before `leave` waits: a call that hangs in a part must not hide it
        guard(run)
        if self.leave is not None:
            self.leave()

    @property
    def alive(self) -> bool:
        """Whether the thread was started and has not ended."""
        return self._thread is not None and self._thread.is_alive()

    def join(self, timeout_s: float) -> None:
        """Waits until the thread has ended, at most `timeout_s` seconds."""
        if self._thread is not None:
            self._thread.join(timeout_s)


def join_all(threads: Iterable[SubtaskThread], timeout_s: float, waiting: Callable[[], None]) -> None:
    """Waits until all threads have ended, at most `timeout_s` seconds. Calls `waiting` about 20 times a second."""
    deadline = time.monotonic() + timeout_s
    for item in threads:
        while item.alive and time.monotonic() < deadline:
            item.join(0.05)
            if item.alive:
                waiting()


def close_all(parts: Iterable[Part]) -> list[Exception]:
    """Closes every part; returns the errors of those that failed to close."""
    failures: list[Exception] = []
    for part in parts:
        try:
            part.close()
        except Exception as error:
            failures.append(error)
    return failures
