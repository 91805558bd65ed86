"""Processes that stand for a broker: recognised by their command line, ended for certain, never mistaken."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from pathlib import Path

from headrace.processes.marked_process import command_line
from headrace_dev.broker.process import BrokerProcess, marks, start_detached, start_leashed
from support.processes.running import wait_until

STUBBORN = (
    "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up', flush=True); time.sleep(600)"
)
LARGE = "import time; held = bytes(range(256)) * (1 << 20); print('up', flush=True); time.sleep(600)"
"""It takes a while to give up its memory, and only then gives up its files."""
STARTER = """
import sys, time
from pathlib import Path
from headrace_dev.broker.process import marks, start_leashed
data = Path(sys.argv[1])
command = [sys.executable, "-c", "import time; time.sleep(600)", *marks(data)]
print(start_leashed(command, data=data, log=data / "log", environment={}).pid, flush=True)
time.sleep(600)
"""


def stand_in(data: Path, program: str = "import time; time.sleep(600)") -> list[str]:
    return [sys.executable, "-c", program, *marks(data)]


def test_a_leashed_process_runs_until_it_is_told_to_end(tmp_path: Path) -> None:
    process = start_leashed(stand_in(tmp_path), data=tmp_path, log=tmp_path / "log", environment=dict(os.environ))
    assert process.is_alive()
    process.terminate(patience_seconds=10)
    assert not process.is_alive()


def test_a_detached_process_is_recognised_by_its_pid_and_data(tmp_path: Path) -> None:
    started = start_detached(stand_in(tmp_path), data=tmp_path, log=tmp_path / "log", environment=dict(os.environ))
    assert BrokerProcess(started.pid, tmp_path).is_alive()
    other = BrokerProcess(started.pid, tmp_path / "other")
    assert not other.is_alive()
    other.kill()
    assert started.is_alive(), "a process with other data was taken for ours"
    started.terminate(patience_seconds=10)
    assert not started.is_alive()


def test_one_that_was_killed_holds_no_lock_any_more(tmp_path: Path) -> None:
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        process = start_detached(
            stand_in(tmp_path, LARGE),
            data=tmp_path,
            log=tmp_path / "log",
            environment=dict(os.environ),
            inherit=(lock.fileno(),),
        )
    wait_until(lambda: (tmp_path / "log").read_text() == "up\n", "it has its memory")
    process.kill()
    with (tmp_path / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)


def test_one_that_will_not_end_is_killed(tmp_path: Path) -> None:
    log = tmp_path / "log"
    process = start_detached(stand_in(tmp_path, STUBBORN), data=tmp_path, log=log, environment=dict(os.environ))
    wait_until(lambda: log.read_text() == "up\n", "it ignores SIGTERM")
    process.terminate(patience_seconds=0.2)
    assert not process.is_alive()


def test_a_pid_given_out_again_is_not_the_broker(tmp_path: Path) -> None:
    own = BrokerProcess(os.getpid(), tmp_path)
    assert not own.is_alive()
    own.terminate(patience_seconds=1)


def test_a_process_that_is_gone_has_no_command_line() -> None:
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    assert command_line(ended.pid) == []


def test_a_process_that_is_just_becoming_a_program_has_its_command_line() -> None:
    for _ in range(20):
        begun = subprocess.Popen(["sleep", "600"])
        try:
            assert command_line(begun.pid)[:2] == ["sleep", "600"]
        finally:
            begun.kill()
            begun.wait()


def test_a_leashed_process_ends_with_a_starter_that_is_killed(tmp_path: Path) -> None:
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(tmp_path)], stdout=subprocess.PIPE)
    assert starter.stdout is not None
    orphan = BrokerProcess(int(starter.stdout.readline()), tmp_path)
    assert orphan.is_alive()
    starter.kill()
    starter.wait()
    starter.stdout.close()
    wait_until(lambda: not orphan.is_alive(), "it has ended with its starter")
