"""Stacks that a process writes at a signal: it goes on while its threads run, and answers while native code holds the
GIL."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from headrace.worker.slot.stacks import STACK_BEGINS, STACKS_SIGNAL, STUCK_SIGNAL
from support.processes.gil_holder import HOLDS_THE_GIL
from support.processes.running import wait_until

BEGIN = """
import sys, threading, time
from headrace.worker.slot.stacks import write_stacks_at_signals

write_stacks_at_signals(sys.stderr.fileno())
"""
DEEP_AND_SHALLOW = """
def deep(depth):
    return depth and deep(depth - 1)

def runs():
    while True:
        deep(300)

for n in range(4):
    threading.Thread(target=runs, name=f"runs-{n}", daemon=True).start()
print("up", flush=True)
threading.Event().wait()
"""
WAITS = """
def waits():
    print("up", flush=True)
    threading.Event().wait()

waits()
"""


@contextmanager
def program(text: str, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as stderr:
        process = subprocess.Popen([sys.executable, "-c", BEGIN + text], stdout=subprocess.PIPE, stderr=stderr)
    with process:
        try:
            assert process.stdout is not None and process.stdout.readline() == b"up\n"
            yield process
        finally:
            process.kill()


def has(log: Path, dumps: int) -> bool:
    """Whether the log has so many stacks of six threads each."""
    return log.read_text().count(f"{STACK_BEGINS}\n") == 6 * dumps


def test_a_process_is_asked_often_while_its_threads_run(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with program(DEEP_AND_SHALLOW, log) as process:
        for dumps in range(1, 101):
            os.kill(process.pid, STACKS_SIGNAL)
            wait_until(partial(has, log, dumps), "the stacks")
        assert process.poll() is None
    text = log.read_text()
    assert all(text.count(f" [runs-{n}] {STACK_BEGINS}\n") == 100 for n in range(4))
    assert "in deep\n" in text


def test_stacks_have_names_and_the_innermost_frame_first(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with program(WAITS, log) as process:
        os.kill(process.pid, STACKS_SIGNAL)
        wait_until(lambda: "<module>" in log.read_text(), "the stacks")
    main = log.read_text().partition("[MainThread] (most recent call first):\n")[2].splitlines()
    assert main[-1].endswith("in <module>") and main[-2].endswith("in waits")


def test_a_process_whose_native_code_holds_the_gil_answers_the_second_signal(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with program(HOLDS_THE_GIL, log) as process:
        os.kill(process.pid, STACKS_SIGNAL)
        os.kill(process.pid, STUCK_SIGNAL)
        wait_until(lambda: "in <module>" in log.read_text(), "the stacks")
        assert process.poll() is None
    assert "in holds" in log.read_text()
    assert log.read_text().count(STACK_BEGINS) == 2, "the first signal's thread had no GIL: two threads, one dump"


def test_other_signals_write_no_stacks(tmp_path: Path) -> None:
    log = tmp_path / "log"
    text = "import signal\nsignal.signal(signal.SIGHUP, lambda *_: print('hung up', flush=True))\n"
    with program(f"{text}print('up', flush=True)\nwhile True:\n    time.sleep(0.01)\n", log) as process:
        os.kill(process.pid, signal.SIGHUP)
        assert process.stdout is not None and process.stdout.readline() == b"hung up\n"
        assert not log.read_text()
        os.kill(process.pid, STACKS_SIGNAL)
        wait_until(lambda: "[slot-stacks]" in log.read_text(), "the stacks")
