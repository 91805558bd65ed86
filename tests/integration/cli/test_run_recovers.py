"""`headrace run` whose slot is killed, which is then killed and stopped itself, and resumed each time."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from support.clusters.gated_run import ROWS, open_gate, rows, wait_checkpoint_after, written
from support.clusters.local import processes_of
from support.processes.running import Finished, finish, headrace, start, wait_until
from support.storage.permissions import open_to_others


def slots(home: Path) -> list[int]:
    found = []
    for pid in processes_of(home):
        with suppress(OSError):  # it has just ended
            if b"headrace-slot" in Path(f"/proc/{pid}/cmdline").read_bytes():
                found.append(pid)
    return found


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a run writes that nothing happens to."""
    folder = written(tmp_path_factory.mktemp("straight") / "run")
    open_gate(folder)
    finished = headrace(["run", "p.yaml", "--json"], folder)
    assert finished.code == 0, finished.err
    return rows(folder / "out")


def test_a_run_outlives_a_slot_and_is_resumed_after_a_kill_and_after_ctrl_c(
    tmp_path: Path, expected: list[str]
) -> None:
    folder = written(tmp_path / "run")
    home = folder / "home"
    first = start(["run", "p.yaml", "--json"], folder)
    attempt = wait_checkpoint_after(0, home)
    os.kill(slots(home)[0], signal.SIGKILL)
    attempt = wait_checkpoint_after(attempt, home)

    first.kill()
    first.communicate()
    assert open_to_others(home) == [], "state, journal and logs of a run that was killed are its owner's"
    wait_until(lambda: processes_of(home) == [], "no process is left of it")
    second = start(["run", "p.yaml", "--resume", "--json"], folder)
    wait_checkpoint_after(attempt, home)

    second.send_signal(signal.SIGINT)
    stopped = finish(second)
    assert stopped.code == 0, stopped.err
    assert (stopped.json["state"], stopped.json["ended_by"]) == ("CANCELED", "stop")
    assert 0 < stopped.json["rows_in"] < ROWS
    assert "headrace run p.yaml --resume" in stopped.err
    assert open_to_others(home) == []

    open_gate(folder)
    finished = headrace(["run", "p.yaml", "--resume", "--json"], folder)
    require_finished(finished, folder, expected)


def require_finished(finished: Finished, folder: Path, expected: list[str]) -> None:
    """The run has read and written everything, has left nothing, and cannot be resumed again."""
    assert finished.code == 0, finished.err
    summary = finished.json
    assert (summary["state"], summary["rows_in"], summary["rows_out"]) == ("FINISHED", ROWS, len(expected))
    assert rows(folder / "out") == expected
    wait_until(lambda: processes_of(folder / "home") == [], "no process is left of it")
    assert not any((folder / "home" / "checkpoints").iterdir()), "nothing is kept of a run that has read everything"
    refused = headrace(["run", "p.yaml", "--resume"], folder)
    assert refused.code == 2
    assert "no run of counted to resume" in refused.err


FUNCTION = """
import ctypes, os, sys

def f(rows):
    if 7 in rows["n"]:
        {ends}
    return rows
"""
ENDS = """
name: ends
restart: {strategy: none}
sources:
  n: {generator: {rows: 20, columns: {n: {sequence: {start: 0}}}}, schema: {n: int64}}
steps:
  last: {from: n, map: {function: "fn:f", schema: {n: int64}}}
sinks:
  out: {from: last, print: {}}
"""
LOOPS = """
name: loops
checkpoint: {interval: 60s}
restart: {initial: 10ms, max: 20ms}
sources:
  n: {generator: {rows: 20, columns: {n: {sequence: {start: 0}}}}, schema: {n: int64}}
steps:
  last: {from: n, map: {function: "fn:f", schema: {n: int64}}}
  counted: {from: last, key_by: [n], aggregate: {rows: "count(*)"}}
sinks:
  out: {from: counted, print: {}}
"""


@pytest.mark.parametrize(
    ("ends", "told"),
    [
        ("os._exit(1)", "exited with code 1 while it ran fn:f of step 'last'"),
        pytest.param("os._exit(0)", "left while it ran fn:f of step 'last'", marks=pytest.mark.full),
        ("ctypes.string_at(0)", "killed by signal 11 (SIGSEGV) while it ran fn:f of step 'last'"),
        pytest.param("sys.exit(3)", "fn:f raised SystemExit: 3", marks=pytest.mark.full),
    ],
)
def test_a_function_that_ends_its_process_is_named(ends: str, told: str, tmp_path: Path) -> None:
    (tmp_path / "fn.py").write_text(FUNCTION.format(ends=ends))
    (tmp_path / "p.yaml").write_text(ENDS)
    failed = headrace(["run", "p.yaml"], tmp_path)
    assert failed.code == 1
    assert told in failed.err


@pytest.mark.parametrize(
    "ends",
    ["ctypes.string_at(0)", pytest.param("os._exit(0)", marks=pytest.mark.full)],
)
def test_a_row_that_ends_its_process_each_time_ends_the_run(ends: str, tmp_path: Path) -> None:
    """Two slots: the other one may fail first, because it has lost its connection. Nothing counts that."""
    (tmp_path / "fn.py").write_text(FUNCTION.format(ends=ends))
    (tmp_path / "p.yaml").write_text(LOOPS)
    failed = headrace(["run", "p.yaml", "--parallelism", "2"], tmp_path)
    assert failed.code == 1
    assert "the same failure 3 times without progress" in failed.err
    assert "while it ran fn:f of step 'last'" in failed.err
    assert "poison_after" in failed.err
