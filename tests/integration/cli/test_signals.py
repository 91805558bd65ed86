"""`headrace run` and signals that end it, at any moment, to the process and to its group; a terminal that is gone."""

from __future__ import annotations

import os
import pty
import random
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest

from support.clusters.gated_run import checkpointed_attempt, open_gate, rows, written
from support.clusters.local import processes_of
from support.patience import RUN_TIMES, WAIT_SECONDS
from support.processes.running import Finished, finish, headrace, wait_until

pytestmark = pytest.mark.turns(3)

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
DEFAULT_SIGNALS = ["env", "--default-signal=INT,TERM,HUP"]
"""Tests that were started by nohup ignore some of them, and so would what they start."""
UNBORN = ("Fatal Python error: init_", "Could not import runpy module")
"""Python's own errors, with exit code 1, if it is interrupted before the first line of the program: it initializes its
encoding, its streams (`init_sys_streams`) and its paths (`init_import_site`) by imports, which an interrupt fails."""
SLOWEST_S = 5.0
"""By then a run has begun to read on any machine; on most within one second."""


@pytest.fixture(scope="module")
def expected(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """What a run writes that nothing happens to."""
    folder = written(tmp_path_factory.mktemp("straight") / "run")
    open_gate(folder)
    assert headrace(["run", "p.yaml"], folder).code == 0
    return rows(folder / "out")


def begun(folder: Path, *, ignored: signal.Signals | None = None) -> subprocess.Popen[str]:
    """A run as a shell starts it: by a fresh interpreter, first of a process group of its own."""
    ignore = f"trap '' {ignored.name.removeprefix('SIG')}; " if ignored is not None else ""
    return subprocess.Popen(
        [*DEFAULT_SIGNALS, "sh", "-c", f'{ignore}exec "$@"', "sh", sys.executable, "-m", "headrace", "run", "p.yaml"],
        cwd=folder,
        env=os.environ | RUN_TIMES | {"HEADRACE_HOME": str(folder / "home")},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


def send(process: subprocess.Popen[str], number: signal.Signals, *, group: bool) -> None:
    if group:
        os.killpg(process.pid, number)
    else:
        process.send_signal(number)


def require_well_ended(ended: Finished, number: signal.Signals, folder: Path, expected: list[str]) -> None:
    """With its last checkpoint, or before anything ran; nothing is left over, and a run that goes on is exact."""
    # before our first line runs, Python shows where it was itself, or cannot even do that
    assert not re.search(r'File ".*headrace/(?!__init__)', ended.err), ended.err
    unborn = any(text in ended.err for text in UNBORN)
    assert ended.code in {0, -number, 128 + number, *([1] if unborn else [])}, (ended.code, ended.err)
    wait_until(lambda: processes_of(folder / "home") == [], "no process is left of it")
    kept = headrace(["runs", "list", "--json"], folder).json["runs"]
    if ended.code == 0:
        assert "stopping" in ended.err
    open_gate(folder)
    again = headrace(["run", "p.yaml", *(["--resume"] if kept else [])], folder)
    assert again.code == 0, again.err
    assert rows(folder / "out") == expected


@pytest.mark.parametrize(
    ("number", "group"),
    [
        (signal.SIGINT, True),
        (signal.SIGTERM, False),
        pytest.param(signal.SIGHUP, True, marks=pytest.mark.full),  # the commit tier has a terminal that is gone
        *[pytest.param(*each, marks=pytest.mark.full) for each in ((signal.SIGINT, False), (signal.SIGTERM, True))],
        pytest.param(signal.SIGHUP, False, marks=pytest.mark.full),
    ],
)
def test_a_run_that_reads_ends_with_a_checkpoint(
    number: signal.Signals, group: bool, tmp_path: Path, expected: list[str]
) -> None:
    folder = written(tmp_path / "run")
    process = begun(folder)
    wait_until(lambda: checkpointed_attempt(folder / "home") > 0, "a checkpoint with rows")
    send(process, number, group=group)
    ended = finish(process)
    assert ended.code == 0, ended.err
    assert "\nSTOPPED: " in ended.err
    require_well_ended(ended, number, folder, expected)


INTERRUPTED_WHILE_BUILT = """
import os, signal
import typer.main

build = typer.main.get_command

def interrupted(app):
    os.kill(os.getpid(), signal.SIGINT)
    return build(app)

typer.main.get_command = interrupted
from headrace.__main__ import main
main()
"""


INTERRUPTED_AT_THE_FIRST_IMPORT = """
import os, sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if "headrace.__main__" in sys.modules:
            os.kill(os.getpid(), 2)

sys.meta_path.insert(0, Interrupting())
from headrace.__main__ import main
main()
"""


@pytest.mark.parametrize("program", [INTERRUPTED_WHILE_BUILT, INTERRUPTED_AT_THE_FIRST_IMPORT])
def test_a_command_that_is_interrupted_before_it_begins_leaves_no_trace(program: str, tmp_path: Path) -> None:
    ended = subprocess.run(
        [*DEFAULT_SIGNALS, sys.executable, "-c", program, "run", "p.yaml"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert (ended.returncode, ended.stderr) == (-signal.SIGINT, "")


MOMENTS = 60


@pytest.mark.parametrize(
    "moment", [pytest.param(number, marks=() if number < 2 else pytest.mark.full) for number in range(MOMENTS)]
)
def test_a_run_may_be_ended_at_any_moment(moment: int, tmp_path: Path, expected: list[str]) -> None:
    chance = random.Random(moment)
    folder = written(tmp_path / "run")
    process = begun(folder)
    number, group = chance.choice(ENDING), chance.random() < 0.5
    time.sleep(chance.random() ** 2 * SLOWEST_S)
    send(process, number, group=group)
    require_well_ended(finish(process), number, folder, expected)


@pytest.mark.parametrize(
    "number", [signal.SIGHUP, *[pytest.param(each, marks=pytest.mark.full) for each in (signal.SIGINT, signal.SIGTERM)]]
)
def test_a_signal_that_it_was_started_to_ignore_does_nothing(number: signal.Signals, tmp_path: Path) -> None:
    folder = written(tmp_path / "run")
    process = begun(folder, ignored=number)
    wait_until(lambda: checkpointed_attempt(folder / "home") > 0, "a checkpoint with rows")
    send(process, number, group=True)
    open_gate(folder)
    ended = finish(process)
    assert (ended.code, "FINISHED" in ended.err) == (0, True), ended.err


IN_TERMINAL = """
import fcntl, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
from headrace.__main__ import main
main()
"""


def test_a_terminal_that_is_gone_ends_a_run_with_a_checkpoint(tmp_path: Path, expected: list[str]) -> None:
    """Its rows go to that terminal, too."""
    folder = written(tmp_path / "run")
    text = (folder / "p.yaml").read_text()
    (folder / "p.yaml").write_text(text + "  shown: {from: held, print: {}, format: json}\n")
    ours, theirs = pty.openpty()

    process = subprocess.Popen(
        [*DEFAULT_SIGNALS, sys.executable, "-c", IN_TERMINAL, "run", "p.yaml"],
        cwd=folder,
        env=os.environ | RUN_TIMES | {"HEADRACE_HOME": str(folder / "home")},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    shown = bytearray()

    def has_shown_rows() -> bool:
        with suppress(BlockingIOError):
            shown.extend(os.read(ours, 65_536))
        return b'"id":' in shown and checkpointed_attempt(folder / "home") > 0

    wait_until(has_shown_rows, "rows on the terminal, and a checkpoint")
    os.close(ours)
    assert process.wait(WAIT_SECONDS) == 0
    wait_until(lambda: processes_of(folder / "home") == [], "no process is left of it")
    (folder / "p.yaml").write_text(text)
    open_gate(folder)
    again = headrace(["run", "p.yaml", "--resume"], folder)
    assert again.code == 0, again.err
    assert rows(folder / "out") == expected
