"""A supervisor collects stacks of its slots, which stand in as programs of a few lines."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import pytest

from headrace.worker.supervision.slot_log import SlotLog
from headrace.worker.supervision.slot_process import SlotProcess, SlotState
from headrace.worker.supervision.stacks import all_stacks
from support.processes.gil_holder import HOLDS_THE_GIL

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
