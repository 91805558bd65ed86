"""Requests to end that come amid anything."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headrace.processes.end_request import EndRequest
from support.patience import WAIT_SECONDS

SIGNALS = 20_000
_SENDER = """
import os, signal, sys
for _ in range(int(sys.argv[2])):
    os.kill(int(sys.argv[1]), signal.SIGUSR1)
"""


@pytest.fixture
def request_by_signal() -> Iterator[EndRequest]:
    """Made by SIGUSR1."""
    made = EndRequest()
    before = signal.signal(signal.SIGUSR1, lambda *_: made.set())
    yield made
    signal.signal(signal.SIGUSR1, before)


def test_who_waits_is_woken() -> None:
    made = EndRequest()
    assert not made.wait(0.001)
    assert not made.is_set()
    threading.Timer(0.01, made.set).start()
    assert made.wait(WAIT_SECONDS)
    assert made.is_set()
    assert made.wait(WAIT_SECONDS)


def test_signals_amid_a_wait_or_another_signal_block_nothing(request_by_signal: EndRequest) -> None:
    """With `threading.Event` it stands still at once: a handler that interrupts `wait`, or a handler, waits for the
    lock that the interrupted one holds."""
    with subprocess.Popen([sys.executable, "-c", _SENDER, str(os.getpid()), str(SIGNALS)]) as sending:
        while sending.poll() is None:
            request_by_signal.wait(0.0)
    assert sending.returncode == 0
    assert request_by_signal.is_set()


def _descriptors() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_its_descriptors_go_with_it() -> None:
    before = _descriptors()
    made = EndRequest()
    made.set()
    del made
    assert _descriptors() == before
