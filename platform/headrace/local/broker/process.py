"""The operating-system process of a broker: started, recognised again by pid, ended.

A pid alone proves nothing, for the system gives it out again. So every broker carries its role and its data folder
in its command line, and a process is only taken for a broker, or sent a signal, when that text is found there.

Two ways to live:

* *leashed*: ends with the process that started it, however that ends. A shell waits on a pipe whose other end only
  the starter holds; when the starter is gone the pipe closes and the shell ends the broker. (Linux' parent-death
  signal would fire already when the starting thread ends, and other systems lack it.)
* *detached*: goes on until told to stop. It is nobody's child, so nobody must wait for it.

Either is in a session of its own: Ctrl-C reaches the command at the terminal, not its broker.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

ROLE = "headrace-broker"

_LOOK_SECONDS = 0.02
_KILL_SECONDS = 10.0

_LEASH = 'read -r _; kill -TERM "$1"; sleep 10; kill -KILL "$1"'
_DETACH = 'log="$1"; shift; "$@" </dev/null >>"$log" 2>&1 & echo $!'


def marks(data: Path) -> tuple[str, ...]:
    """The arguments that make the broker of `data` recognisable in a list of processes."""
    return (f"-Dheadrace.role={ROLE}", f"-Dheadrace.data={data}")


class BrokerProcess:
    """One broker process, known by pid and marks; a process that merely has the same pid is never touched."""

    def __init__(
        self,
        pid: int,
        data: Path,
        child: subprocess.Popen[bytes] | None = None,
        leash: subprocess.Popen[bytes] | None = None,
    ) -> None:
        self.pid = pid
        self._marks = marks(data)
        self._child = child
        self._leash = leash

    def is_alive(self) -> bool:
        """Whether the broker runs. A process that has ended but was not waited for does not count."""
        if self._child is not None:
            return self._child.poll() is None
        arguments = command_line(self.pid)
        return all(mark in arguments for mark in self._marks)

    def terminate(self, *, patience_seconds: float) -> None:
        """Ask it to end, and kill it when it has not within `patience_seconds`. Returns when it is gone."""
        self._signal(signal.SIGTERM)
        if not self._wait_gone(patience_seconds):
            self.kill()
        self._drop_leash()

    def kill(self) -> None:
        """End it at once, as a crash would. Returns when it is gone."""
        self._signal(signal.SIGKILL)
        self._wait_gone(_KILL_SECONDS)
        self._drop_leash()

    def _signal(self, number: signal.Signals) -> None:
        if self.is_alive():
            try:
                os.kill(self.pid, number)
            except ProcessLookupError:
                return

    def _wait_gone(self, seconds: float) -> bool:
        deadline = time.monotonic() + seconds
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(_LOOK_SECONDS)
        return True

    def _drop_leash(self) -> None:
        """End the shell that waits on the pipe. Only once the broker is gone: its pid is free from then on."""
        leash, self._leash = self._leash, None
        if leash is not None:
            leash.kill()
            leash.wait()
            if leash.stdin is not None:
                leash.stdin.close()


def start_leashed(
    command: Sequence[str], *, data: Path, log: Path, environment: Mapping[str, str], inherit: tuple[int, ...] = ()
) -> BrokerProcess:
    """Start a broker that ends with this process. Its output is appended to `log`; it keeps `inherit` open."""
    with log.open("ab") as sink:
        child = subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=sink,
            stderr=subprocess.STDOUT,
            env=environment,
            cwd=data,
            start_new_session=True,
            pass_fds=inherit,
        )
    leash = subprocess.Popen(
        ["/bin/sh", "-c", _LEASH, f"{ROLE}-leash", str(child.pid)],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return BrokerProcess(child.pid, data, child, leash)


def start_detached(
    command: Sequence[str], *, data: Path, log: Path, environment: Mapping[str, str], inherit: tuple[int, ...] = ()
) -> BrokerProcess:
    """Start a broker that outlives this process. Its output is appended to `log`; it keeps `inherit` open."""
    answer = subprocess.run(
        ["/bin/sh", "-c", _DETACH, f"{ROLE}-start", str(log), *command],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        env=environment,
        cwd=data,
        start_new_session=True,
        pass_fds=inherit,
        check=True,
    )
    process = BrokerProcess(int(answer.stdout), data)
    _wait_exec(process.pid)
    return process


def command_line(pid: int) -> list[str]:
    """The arguments of a running process; empty where there is none (or it waits to be reaped)."""
    arguments = Path(f"/proc/{pid}/cmdline")
    try:
        return os.fsdecode(arguments.read_bytes()).split("\0")
    except (FileNotFoundError, ProcessLookupError):
        if Path("/proc/self/cmdline").exists():
            return []
    shown = subprocess.run(
        ["ps", "-ww", "-o", "args=", "-p", str(pid)], capture_output=True, text=True, check=False
    ).stdout
    return shown.split()


def _wait_exec(pid: int, seconds: float = 5.0) -> None:
    """Wait until the shell's child has become the broker: before that it has not the broker's command line."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        arguments = command_line(pid)
        if not arguments or arguments[0] != "/bin/sh":
            return
        time.sleep(_LOOK_SECONDS / 4)
