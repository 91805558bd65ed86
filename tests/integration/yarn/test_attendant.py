"""The attendant of an application ends with its ApplicationMaster; YARN may leave it behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import psutil

from support.processes.running import wait_until

PARENT = """\
import signal, sys
from headrace.deployment.yarn.attendant import AttendantProcess
AttendantProcess(sys.argv[1:], lambda: None).start()
signal.pause()
"""
ATTENDANT = (sys.executable, "-m", "headrace.deployment.yarn.attendant", "headrace-attendant")


def catches_sigterm(process: psutil.Process) -> bool:
    status = Path(f"/proc/{process.pid}/status").read_text()
    caught = next(line for line in status.splitlines() if line.startswith("SigCgt"))
    return bool(int(caught.split()[1], 16) & 1 << 14)


def test_it_ends_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    """No coordinator answers it: it waits for one to come back."""
    given = ("--election", f"ledger+{tmp_path.as_uri()}", "--linger-ms", "600000", "--program", "app.py")
    own = {**os.environ, "HEADRACE_HOME": str(tmp_path / "home")}
    with subprocess.Popen([sys.executable, "-c", PARENT, *ATTENDANT, *given], env=own, cwd=tmp_path) as parent:
        try:
            above = psutil.Process(parent.pid)
            wait_until(lambda: any(map(catches_sigterm, above.children())), "the attendant has begun")
            (attendant,) = above.children()
            assert "headrace-attendant" in attendant.cmdline()
        finally:
            parent.kill()
    wait_until(
        lambda: not attendant.is_running() or attendant.status() == psutil.STATUS_ZOMBIE, "the attendant has ended, too"
    )
