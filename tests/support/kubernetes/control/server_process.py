"""A server of a cluster as a process: killed, suspended, started again. It ends with this process."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from support.processes.running import wait_until

ENDS_WITH_PARENT = ("setpriv", "--pdeathsig", "KILL")
"""Also when this process is killed. The signal comes when the thread that has started the server ends."""
_TAIL_LINES = 15


class ServerProcess:
    """Its output is appended to `log`. Not started yet.

    prefix: a command that runs the server as its child, inside of namespaces; they end with this process.
    """

    def __init__(self, name: str, command: Sequence[str | Path], log: Path, *, prefix: Sequence[str] = ()) -> None:
        self.name = name
        self.log = log
        self._prefix = prefix
        self._command = [str(word) for word in command]
        self._started: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        """Of the server, as this process sees it."""
        return child_of(self._process) if self._prefix else self._process.pid

    def start(self) -> None:
        """Starts it, for the first time or anew; does not wait until it serves."""
        assert self._started is None or self._started.poll() is not None, f"{self.name} runs"
        with self.log.open("ab") as log:
            self._started = subprocess.Popen(
                [*ENDS_WITH_PARENT, *self._prefix, *self._command],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    def require_alive(self) -> None:
        """Fails, with the end of its log, if it has ended."""
        code = self._process.poll()
        assert code is None, f"{self.name} ended with {code}:\n{self._tail()}\nits whole log: {self.log}"

    def kill(self) -> None:
        """SIGKILL. Returns when it is gone; does nothing if it does not run."""
        if self._started is not None and self._started.poll() is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            self._started.wait()

    @contextmanager
    def suspended(self) -> Iterator[None]:
        """SIGSTOP, later SIGCONT: it answers nothing and keeps its connections."""
        pid = self.pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    @property
    def _process(self) -> subprocess.Popen[bytes]:
        assert self._started is not None, f"{self.name} was not started"
        return self._started

    def _tail(self) -> str:
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-_TAIL_LINES:])


def child_of(process: subprocess.Popen[bytes]) -> int:
    """The pid of the only child of a process that has just been started."""
    found: list[str] = []

    def has_child() -> bool:
        assert process.poll() is None, f"{process.args!r} ended with {process.returncode}"
        found[:] = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        return bool(found)

    wait_until(has_child, f"{process.args!r} has a child")
    return int(found[0])
