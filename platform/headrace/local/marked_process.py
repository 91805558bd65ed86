"""A process of ours that outlives the command that started it: started, recognised again by pid, ended.

A pid alone proves nothing, for the system gives it out again. So every such process carries marks in its command line
(its role, the folder that it works for), and a process is only taken for it, or sent a signal, when they are found.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.core.files.private_files import private_opener
from headrace.processes.detached import ModuleCommand, Surroundings, can_fork_off, fork_off

_LOOK_SECONDS = 0.02
_KILL_SECONDS = 60.0
_EXEC_SECONDS = 5.0
"""What a process takes at most to become the program that it is started for."""

_DETACH = 'log="$1"; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'


class MarkedProcess:
    """One process, known by pid and marks; a process that merely has the same pid is never touched."""

    def __init__(self, pid: int, marks: tuple[str, ...], child: subprocess.Popen[bytes] | None = None) -> None:
        self.pid = pid
        self._marks = marks
        self._child = child

    def is_alive(self) -> bool:
        """Whether it runs. A process that has ended but was not waited for does not count."""
        if self._child is not None:
            return self._child.poll() is None
        arguments = command_line(self.pid)
        return all(mark in arguments for mark in self._marks)

    def terminate(self, *, patience_seconds: float) -> None:
        """Ask it to end, and kill it when it has not within `patience_seconds`. Returns when it is gone."""
        self._signal(signal.SIGTERM)
        if not self.wait_gone(patience_seconds):
            self.kill()

    def kill(self) -> None:
        """End it at once, as a crash would. Returns when it is gone."""
        self._signal(signal.SIGKILL)
        self.wait_gone(_KILL_SECONDS)

    def wait_gone(self, seconds: float) -> bool:
        """Waits until it has ended and holds nothing any more, neither port nor lock; False: it has not."""
        deadline = time.monotonic() + seconds
        while self.is_alive() or (self._child is None and _is_ending(self.pid)):
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def _signal(self, number: signal.Signals) -> None:
        if self.is_alive():
            try:
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
    """Starts a process that outlives this one, and returns its pid. Nobody has to wait for it: it is nobody's child.

    It has a session of its own: Ctrl-C reaches the command at the terminal, not it. Its output is appended to `log`;
    it keeps `inherit` open. `umask`: of the process, -1: as here.
    """
    # made before the shell makes it, which would with the umask
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
    """Starts a process of our own that outlives this one, and returns its pid: as `spawn_detached`, but forked off this
    process where that does as well. Raises ExternalError."""
    if can_fork_off(where.environment):
        return fork_off(command, where)
    return spawn_detached(
        command.line, role=command.role, log=where.log, folder=where.folder, environment=where.environment
    )


def command_line(pid: int) -> list[str]:
    """The arguments of a running process; empty where there is none (or it waits to be reaped)."""
    deadline = time.monotonic() + _EXEC_SECONDS
    try:
        # a process that is just becoming another program has no arguments for a moment
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
    """Whether it runs a program that we may know of: it has not ended, and is no thread of the kernel."""
    try:
        Path(f"/proc/{pid}/exe").readlink()
    except OSError:
        return False
    return True


def _is_ending(pid: int) -> bool:
    """Whether it has given up its memory, and with it its arguments, but not yet all of its threads and files."""
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
    """Wait until the shell's child has become the program: before that it has not the program's command line."""
    deadline = time.monotonic() + _EXEC_SECONDS
    while time.monotonic() < deadline:
        arguments = command_line(pid)
        if not arguments or arguments[0] != "/bin/sh":
            return
        time.sleep(_LOOK_SECONDS / 4)
