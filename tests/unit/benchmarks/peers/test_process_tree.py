"""CPU time of a tree of processes: ended ones and orphans count."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from measuring.process_times import TICKS_PER_S
from peers.process_tree import FailedRunError, started, whole_run

BURN = "import time\nwhile time.process_time() < 0.4: pass"
CHILD = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {BURN!r}], check=True)"
ORPHAN = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {BURN!r}])"


@pytest.mark.parametrize("program", [BURN, CHILD, ORPHAN], ids=["itself", "child", "orphan"])
def test_every_process_counts(program: str, tmp_path: Path) -> None:
    phase = whole_run([sys.executable, "-c", program], tmp_path, rows=7, environment=os.environ)
    assert phase.rows == 7
    assert phase.cpu_s >= 0.39, "a clock tick less at most"


def test_a_tree_is_read_while_it_runs_and_after_a_child_has_ended(tmp_path: Path) -> None:
    program = f"{CHILD}; print('burnt', flush=True); sys.stdin.read()"
    with started([sys.executable, "-c", program], tmp_path, environment=os.environ) as tree:
        assert tree.stdout.readline() == "burnt\n"
        running_s = tree.cpu_s()
        assert running_s >= 0.39
        # Linux may drop the last fraction of a tick of each process that ends
        assert tree.end() >= running_s - 2 / TICKS_PER_S


@pytest.mark.parametrize(
    ("program", "message"),
    [("import sys; sys.exit('no broker')", "code 1; .*no broker"), ("import os; os.kill(os.getpid(), 9)", "code 9")],
)
def test_a_run_that_ends_badly_is_no_figure(program: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(FailedRunError, match=f"(?s){message}"):
        whole_run([sys.executable, "-c", program], tmp_path, rows=1, environment=os.environ)


def test_nothing_is_left_of_a_tree_that_is_given_up(tmp_path: Path) -> None:
    program = "import os, sys; os.fork(); os.write(1, b'%d\\n' % os.getpid()); sys.stdin.read()"
    with started([sys.executable, "-c", program], tmp_path, environment=os.environ) as tree:
        pids = [int(tree.stdout.readline()) for _ in range(2)]
    assert [pid for pid in pids if _runs(pid)] == []


def _runs(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
