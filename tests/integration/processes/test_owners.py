"""The end of an owner, owners as pid 1, orphans, and code on disk that changes under an owner."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import headrace
from headrace.core.errors import UserError
from headrace.processes.template.client import TemplateStarter
from support.clusters.worker_process import is_running
from support.processes.running import wait_until
from support.processes.told import Told
from support.processes.told_program import PROGRAM

pytestmark = pytest.mark.usefixtures("told_importable")

OWNER = """
import os, sys
from pathlib import Path
from headrace.processes.template.client import own_starter
starter = own_starter(["support.processes.told_program"])
from support.processes.told import Told
folder = Path(sys.argv[1])

def children():
    return set(Path(f"/proc/self/task/{os.getpid()}/children").read_text().split())
"""
IDLE = """
told = [Told(starter, folder) for _ in range(2)]
print(*children(), flush=True)
sys.stdin.read()
"""
BUSY = """
import signal, time
from headrace.processes.marked_process import command_line

def template():
    return next(int(pid) for pid in children() if "headrace-template" in command_line(int(pid)))

def wait_until(is_so):
    while not is_so():
        starter.ready()
        time.sleep(0.01)

with Told(starter, folder) as before:
    os.kill(template(), signal.SIGKILL)
    with Told(starter, folder) as after:
        after.tell("exit", 5)
        assert after.child.wait(60) == 5
    before.tell("exit", 6)
    assert before.child.wait(60) == 6

with Told(starter, folder) as parent:
    orphan = parent.ask("orphan", f"while [ ! -e {folder}/go ]; do sleep 0.01; done")
    parent.tell("exit", 0)
    assert parent.child.wait(60) == 0
# orphaned to this process
wait_until(lambda: str(orphan) in children())
(folder / "go").touch()
wait_until(lambda: children() == {str(template())})
starter.close()
assert children() == set(), children()
print("done", os.getpid())
"""


@contextmanager
def owner(program: str, folder: Path, *before: str) -> Iterator[subprocess.Popen[str]]:
    """A process that owns a template."""
    process = subprocess.Popen(
        [*before, sys.executable, "-c", OWNER + program, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            yield process
        finally:
            process.kill()


def test_nothing_is_left_of_an_owner_that_is_killed(tmp_path: Path) -> None:
    with owner(IDLE, tmp_path) as process:
        assert process.stdout is not None
        pids = [int(pid) for pid in process.stdout.readline().split()]
        assert len(pids) == 3, "a template and two processes"
        process.kill()
        wait_until(lambda: not any(is_running(pid) for pid in pids), "all are gone")


@pytest.mark.parametrize("as_pid_1", [False, True])
def test_an_owner_collects_every_exit_code(tmp_path: Path, as_pid_1: bool) -> None:
    before = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"] if as_pid_1 else []
    with owner(BUSY, tmp_path, *before) as process:
        out, _ = process.communicate()
    assert out.split()[:1] == ["done"]
    assert (out.split()[1] == "1") == as_pid_1


def test_packages_that_change_mean_a_new_template(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr(sys, "path", [*sys.path, str(site)])
    starter = TemplateStarter([PROGRAM])
    try:
        with Told(starter, tmp_path) as before:
            (site / "new.dist-info").mkdir()
            with Told(starter, tmp_path) as after:
                assert before.ask("query") == after.ask("query")
            (site / "newer.dist-info").mkdir()
            monkeypatch.setattr(headrace, "__version__", "0.0.0")
            with pytest.raises(UserError, match=r"is installed now, and this process runs 0\.0\.0(.|\n)*restart"):
                Told(starter, tmp_path)
            assert before.ask("query")
    finally:
        starter.close()
