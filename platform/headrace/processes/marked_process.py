"""Starts, recognises and ends processes of Headrace that outlive the command that started them.

A pid alone does not identify a process, because the system reuses pids. So each of these processes has marks in its
command line: its role, and the folder that it works for. A process without the marks is another one, and receives no
signal.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.core.files.home_files import private_opener
from headrace.processes.detached import ModuleCommand, Surroundings, can_fork_off, fork_off

_LOOK_SECONDS = 0.02
_KILL_SECONDS = 60.0
_EXEC_SECONDS = 5.0
"""Time limit, in s, for the shell's child to execute its program."""

_DETACH = 'log="$1"; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'


class MarkedProcess:
    """One process, identified by pid and marks. Another process with the same pid is never touched."""

    def __init__(self, pid: int, marks: tuple[str, ...], child: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self._marks = marks
        self._child = child

    def is_alive(self) -> bool:
        """Whether it runs. A zombie does not count."""
        if self._child is not None:
            # poll also reaps: as a zombie the child would keep its pid
            return self._child.poll() is None
        arguments = command_line(self.pid)
        return all(mark in arguments for mark in self._marks)

    def ask_to_end(self) -> None:
        """Sends SIGTERM, and does not wait."""
        self._signal(signal.SIGTERM)

    def terminate(self, *, patience_seconds: float) -> None:
        """Sends SIGTERM, and kills it after `patience_seconds`. Returns when it is gone."""
        self.ask_to_end()
        if not self.wait_gone(patience_seconds):
            self.kill()

    def kill(self) -> None:
        """Kills it, like a crash. Returns when it is gone."""
        self._signal(signal.SIGKILL)
        self.wait_gone(_KILL_SECONDS)

    def wait_gone(self, seconds: float) -> bool:
        """Waits until it has ended and holds neither port nor lock any more. Returns False if it still runs then."""
        deadline = time.monotonic() + seconds
        while self.is_alive() or (self._child is None and _is_ending(self.pid)):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self.is_alive():
            try:
                # the process may end between the check and the signal
                os.kill(self.pid, number)
            except ProcessLookupError:
                return


def spawn_detached(
    command: Sequence[str],
    *,
    role: str,
    log: Path,
    folder: Path,
    environment: Mapping[str, str],
    inherit: tuple[int, ...] = (),
    umask: int = -1,
) -> int:
    """Starts a process that outlives this one, and returns its pid. It is an orphan: init reaps it, not the caller.

    It has its own session, so Ctrl-C at the terminal does not reach it. Its output is appended to `log`; it keeps the
    descriptors `inherit` open. `umask`: of the process; -1: that of this process.
    """
    # created here with mode 0600: the shell would create it with the umask's mode
    os.close(private_opener(str(log), os.O_WRONLY | os.O_CREAT))
    answer = subprocess.run(
        ["/bin/sh", "-c", _DETACH, f"{role}-start", str(log), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=environment,
        cwd=folder,
        start_new_session=True,
        pass_fds=inherit,
        check=True,
        umask=umask,
    )
    pid = int(answer.stdout)
    _wait_exec(pid)
    return pid


def start_module(command: ModuleCommand, where: Surroundings) -> int:
    """Starts a process of Headrace that outlives this one, and returns its pid: forked off this process where that is
    equivalent, else by `spawn_detached`. Raises ExternalError.
    """
    if can_fork_off(where.environment):
        return fork_off(command, where)
    return spawn_detached(
        command.line, role=command.role, log=where.log, folder=where.folder, environment=where.environment
    )


def command_line(pid: int) -> list[str]:
    """Returns the arguments of a running process; empty if there is none (or it is a zombie)."""
    deadline = time.monotonic() + _EXEC_SECONDS
    try:
        # a process in the middle of its exec has no arguments for a moment
        while not (arguments := Path(f"/proc/{pid}/cmdline").read_bytes()) and _has_program(pid):
            if time.monotonic() > deadline:
                break
            time.sleep(_LOOK_SECONDS / 4)
        return os.fsdecode(arguments).split("\0") if arguments else []
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/cmdline").exists():
            return []
    shown = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return shown.split()


def _has_program(pid: int) -> bool:
    """Whether the process has an executable: False for a process that has ended and for a kernel thread."""
    try:
        Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return False
    return True


def _is_ending(pid: int) -> bool:
    """Whether the process has released its memory, and so its arguments, but not yet all of its threads and files."""
    process = Path(f"/proc/{pid}")
    try:
        if (process / "cmdline").read_bytes():
            return False
        state = (process / "stat").read_text().rpartition(")")[2].split()[0]
        threads = len(list((process / "task").iterdir()))
    except OSError:
        return False
    return state != "Z" or threads > 1


def _wait_exec(pid: int) -> None:
    """Waits until the shell's child has executed the program: before that its command line lacks the marks."""
    deadline = time.monotonic() + _EXEC_SECONDS
    while time.monotonic() < deadline:
        arguments = command_line(pid)
        if not arguments or arguments[0] != "/bin/sh":
            return
        time.sleep(_LOOK_SECONDS / 4)
