"""Threads that do not hold up the end of a process."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from headrace.coordinator.driver.daemon_threads import DaemonThreads
from support.processes.running import WAIT_SECONDS

HANGS = """
import threading
from headrace.coordinator.driver.daemon_threads import DaemonThreads

begun = threading.Event()
threads = DaemonThreads(1, "storage")
threads.submit(lambda: (begun.set(), threading.Event().wait()))
begun.wait()
threads.shutdown()
"""


def test_results_and_errors_come_back_in_order() -> None:
    threads = DaemonThreads(1, "t")
    futures = [threads.submit(divmod, 7, divisor) for divisor in (2, 0, 3)]
    assert futures[0].result(WAIT_SECONDS) == (3, 1)
    with pytest.raises(ZeroDivisionError):
        futures[1].result(WAIT_SECONDS)
    assert futures[2].result(WAIT_SECONDS) == (2, 1)


def test_no_more_threads_than_it_may_have() -> None:
    threads, free, begun = DaemonThreads(2, "bounded"), threading.Event(), threading.Semaphore(0)

    def work() -> None:
        begun.release()
        free.wait()

    futures = [threads.submit(work) for _ in range(5)]
    for _ in range(2):
        assert begun.acquire(timeout=WAIT_SECONDS)
    assert [each.name for each in threading.enumerate()].count("bounded") == 2
    free.set()
    for future in futures:
        future.result(WAIT_SECONDS)


def test_an_idle_thread_is_used_again() -> None:
    threads = DaemonThreads(5, "idle")
    for _ in range(1_000):
        threads.submit(int).result(WAIT_SECONDS)
    assert [each.name for each in threading.enumerate()].count("idle") == 1


def test_what_is_queued_at_a_shutdown_is_done_and_nothing_after() -> None:
    threads = DaemonThreads(1, "t")
    futures = [threads.submit(int) for _ in range(10)]
    threads.shutdown()
    assert [each.result(WAIT_SECONDS) for each in futures] == [0] * 10
    with pytest.raises(RuntimeError, match="after shutdown"):
        threads.submit(int)


def test_a_process_ends_though_work_hangs() -> None:
    assert subprocess.run([sys.executable, "-c", HANGS], timeout=WAIT_SECONDS, check=False).returncode == 0
