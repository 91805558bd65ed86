"""Reports cross threads in order; a wake lets the one that takes them go."""

from __future__ import annotations

import threading
import time

from headrace.local.engine.reports import InputEnded, Reports
from headrace.worker.control import SubtaskSnapshot
from support.processes.running import WAIT_SECONDS


def test_everything_that_has_come_is_taken_at_once_and_in_order() -> None:
    reports = Reports()
    reports.snapshotted(SubtaskSnapshot("a", 0, 1))
    reports.wake()
    reports.input_ended("a", 0)
    assert reports.take(0) == [SubtaskSnapshot("a", 0, 1), InputEnded("a", 0)]
    assert reports.take(0) == []


def test_a_wake_ends_the_wait() -> None:
    reports = Reports()
    threading.Timer(0.02, reports.wake).start()
    began_s = time.monotonic()
    assert reports.take(int(1_000 * WAIT_SECONDS)) == []
    assert time.monotonic() - began_s < WAIT_SECONDS
