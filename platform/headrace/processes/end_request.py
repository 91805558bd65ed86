"""Ends of this process: a request that a signal handler makes, and the end of the parent."""

from __future__ import annotations

import os
import select
import signal
import threading
import weakref
from contextlib import suppress


class EndRequest:
    """Set once, by a signal handler or by any thread.

    Not a `threading.Event`: a handler runs inside whatever the main thread executes. `Event.set` would wait forever for
    the lock that an interrupted `Event.wait` holds. A pipe wakes the waiting thread instead.
    """

    def __init__(self) -> None:
        self._is_set = False
        self._reading, self._writing = os.pipe()
        os.set_blocking(self._writing, False)
        weakref.finalize(self, _close, self._reading, self._writing)

    def set(self) -> None:
        """Makes the request. Idempotent, and async-signal-safe as far as Python code can be: it acquires no lock."""
        self._is_set = True
        # a full pipe wakes the waiting thread, too
        with suppress(BlockingIOError):
            os.write(self._writing, b"e")

    def is_set(self) -> bool:
        """Whether it was made."""
        return self._is_set

    def wait(self, timeout_s: float) -> bool:
        """Waits for it. Returns whether it was made."""
        poller = select.poll()
        poller.register(self._reading, select.POLLIN)
        # Nobody reads the pipe, so a request that comes just before the call ends it, too. Python repeats a call that a
        # signal has interrupted, after the handler.
        poller.poll(timeout_s * 1_000)
        return self._is_set


def _close(*descriptors: int) -> None:
    for each in descriptors:
        os.close(each)


def end_with_parent() -> None:
    """Ends this process as by SIGTERM when its standard input ends.

    The parent holds the other end, so this works on every system, also for a parent that is killed.
    """

    def wait() -> None:
        while os.read(0, 1024):
            pass
        os.kill(os.getpid(), signal.SIGTERM)

    threading.Thread(target=wait, name="parent-watch", daemon=True).start()
