"""The newest lines of a worker: bounded, and without an effect on what Python prints by itself."""

from __future__ import annotations

import logging
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from headrace.worker.supervision.diagnostics import (
    LINE_CHARS_MAX,
    LINES_MAX,
    LoadMeter,
    RecentLines,
    all_logs,
    all_stacks,
)
from headrace.worker.supervision.slot_log import SlotLog
from headrace.worker.supervision.slot_process import SlotProcess, SlotState
from support.processes.gil_holder import HOLDS_THE_GIL

LOG = logging.getLogger("headrace.worker.test")
UNCONFIGURED = """
import logging
from headrace.worker.supervision.diagnostics import RecentLines
lines = RecentLines()
lines.start()
logging.getLogger("headrace.coordinator").warning("is printed")
assert lines.text == ""
"""


def test_the_newest_lines_are_kept() -> None:
    lines = RecentLines()
    other = logging.NullHandler()
    logging.getLogger().addHandler(other)
    try:
        lines.start()
        for number in range(LINES_MAX + 1):
            LOG.warning("line %d", number)
        LOG.warning("x" * 2 * LINE_CHARS_MAX)
        lines.stop()
        LOG.warning("not kept")
    finally:
        logging.getLogger().removeHandler(other)
    kept = lines.text.splitlines()
    assert len(kept) == LINES_MAX
    assert kept[0].endswith("WARNING line 2")
    assert len(kept[-1]) == LINE_CHARS_MAX and kept[-1].endswith("x")
    assert all_logs(lines, []).startswith("== worker, pid ")


def test_without_logging_python_prints_warnings_as_before() -> None:
    done = subprocess.run([sys.executable, "-c", UNCONFIGURED], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "is printed\n")


BEGIN = """
import sys, threading
from headrace.worker.slot.stacks import write_stacks_at_signals

write_stacks_at_signals(sys.stderr.fileno())
print("an earlier line (most recent call first):", file=sys.stderr)
"""
WAITS = """
print("up", flush=True)
threading.Event().wait()
"""


@dataclass
class Slot:
    name: str
    pid: int
    log: SlotLog
    state: SlotState = SlotState.BUSY


Start = Callable[[str, str], Slot]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    with ExitStack() as ending:

        def started(name: str, text: str) -> Slot:
            log = SlotLog(tmp_path, name)
            ending.callback(log.close)
            command = [sys.executable, "-c", BEGIN + text]
            process = ending.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log.fd))
            ending.callback(process.kill)
            assert process.stdout is not None and process.stdout.readline() == b"up\n"
            return Slot(name, process.pid, log)

        yield started


def parts(*slots: Slot) -> dict[str, str]:
    """Part of the text for each process, by the name of the slot."""
    text = all_stacks([cast("SlotProcess", slot) for slot in slots])
    supervisor, *others = text.split("== slot ")
    named = {part.partition(",")[0]: part for part in others}
    assert supervisor.startswith(f"== supervisor, pid {os.getpid()}\n")
    return {"supervisor": supervisor, **named}


def test_the_stacks_of_each_slot_follow_those_of_the_supervisor(start: Start) -> None:
    one, other = start("one", WAITS), start("other", WAITS)
    texts = parts(one, other)
    assert "test_the_stacks_of_each_slot" in texts["supervisor"]
    for slot in (one, other):
        text = texts[slot.name]
        assert text.startswith(f"{slot.name}, pid {slot.pid}\nThread 0x") and "[MainThread]" in text
        assert "an earlier line" not in text, "what the log had before is not part of it"


def test_a_slot_whose_native_code_holds_the_gil_writes_its_stacks_too(start: Start) -> None:
    texts = parts(start("held", HOLDS_THE_GIL), start("waits", WAITS))
    assert "in <module>" in texts["held"] and "did not answer" not in texts["held"]
    assert "[MainThread]" in texts["waits"]


def test_a_suspended_slot_and_one_that_has_ended_hold_nobody_up(start: Start) -> None:
    stopped, ended, waits = start("stopped", WAITS), start("ended", WAITS), start("waits", WAITS)
    os.kill(stopped.pid, signal.SIGSTOP)
    os.kill(ended.pid, signal.SIGKILL)
    os.waitpid(ended.pid, 0)
    texts = parts(stopped, ended, waits)
    assert "it did not answer: it may be suspended\n" in texts["stopped"]
    assert "it has just ended\n" in texts["ended"]
    assert "[MainThread]" in texts["waits"]


def test_a_slot_that_starts_is_not_asked(start: Start) -> None:
    slot = start("early", WAITS)
    slot.state = SlotState.STARTING
    assert set(parts(slot)) == {"supervisor"}
    assert slot.log.path.read_text().count("\n") == 1


def test_a_process_that_computes_uses_about_the_time_that_it_computes() -> None:
    meter = LoadMeter(0.0)
    assert meter.measure([os.getpid()], 1.0).cpu_millicores == 0
    begun_s = time.process_time()
    while (spent_s := time.process_time() - begun_s) < 0.2:
        pass
    load = meter.measure([os.getpid()], 2.0)
    # ticks of the system are 10 ms
    assert abs(load.cpu_millicores - 1_000 * spent_s) <= 100
    assert load.memory_bytes > 10 << 20


def test_a_process_that_is_gone_counts_nothing() -> None:
    load = LoadMeter(0.0).measure([2**22 + 1], 1.0)
    assert (load.cpu_millicores, load.memory_bytes) == (0, 0)
    assert LoadMeter(1.0).measure([], 1.0).cpu_millicores == 0
