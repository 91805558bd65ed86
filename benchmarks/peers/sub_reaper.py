"""Runs a command and adopts its orphaned processes until all have ended. Its exit code is the command's.

usage: sub_reaper.py COMMAND ..

An ended process adds its CPU time to its parent. Orphans would go to init and be lost; as a sub-reaper (Linux) this
process gets them, so its own `reaped` times are those of the whole tree.
"""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys

_PR_SET_CHILD_SUBREAPER = 36


def main(command: list[str]) -> int:
    if ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a sub-reaper")
    process, code = subprocess.Popen(command), 1
    while True:
        try:
            pid, status = os.wait()
        except ChildProcessError:
            return code  # none is left
        if pid == process.pid:
            # a signal is a negative code, which no exit code may be
            process.returncode = code = abs(os.waitstatus_to_exitcode(status))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
