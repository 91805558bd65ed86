"""Defers Ctrl-C and SIGTERM while a call is under way that they must not interrupt."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_NUMBERS = (signal.SIGINT, signal.SIGTERM)


@contextmanager
def deferred_interrupts() -> Iterator[None]:
    """Inside, a signal has no effect; afterwards its handler runs.

    For calls of a JVM by py4j: one that a KeyboardInterrupt ends leaves a connection with half of an answer, and py4j
    fails with an AttributeError while it cleans up. Python runs handlers in the main thread: elsewhere nothing is
    deferred.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    arrived: list[tuple[int, FrameType | None]] = []

    def keep(number: int, frame: FrameType | None) -> None:
        arrived.append((number, frame))

    before = {int(number): signal.signal(number, keep) for number in _NUMBERS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        if arrived:
            number, frame = arrived[0]
            handler = before[number]
            if callable(handler):
                handler(number, frame)
            else:
                os.kill(os.getpid(), number)


@contextmanager
def ignored_by_children() -> Iterator[None]:
    """Processes that are started inside ignore Ctrl-C: a terminal sends it to them, too, and they end with this one."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
