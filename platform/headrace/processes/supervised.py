"""A child process that its owner talks to over a socket pair, kills for a reason, and explains after its end.

For processes that must not outlive their owner: the child sees the end of the stream when the owner is gone. Processes
that outlive the command that started them are recognised by pid and marks instead (`processes.marked_process`).
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass

from headrace.core.errors import Domain
from headrace.processes.order import ProcessOrder
from headrace.processes.spawning import Starter

_CRASHES = frozenset(
    {signal.SIGSEGV, signal.SIGBUS, signal.SIGILL, signal.SIGFPE, signal.SIGABRT, signal.SIGTRAP, signal.SIGSYS}
)
"""Signals that a process raises by what it does itself."""


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a child.

    reason   text for users, such as `killed by signal 9 (..)`
    clean    exit code 0
    domain   who can fix it: external for a kill, internal for a crash, user for an end inside a user's function
    """

    reason: str
    clean: bool = False
    domain: Domain = Domain.EXTERNAL


def exited_with(code: int, doing: str = "") -> Ending:
    """The end with an exit code that has no meaning of its own. doing: as in `SupervisedChild.ending`."""
    return Ending(f"exited with code {code}{doing}", domain=Domain.USER if doing else Domain.INTERNAL)


class SupervisedChild:
    """A started child. Any thread may call `kill` and the methods that only read its state.

    connection   this end of the socket pair; the owner closes it
    """

    def __init__(self, starter: Starter, order: Callable[[int], ProcessOrder]) -> None:
        """Starts the child. `order` receives the descriptor of the child's end, which the child must keep open.

        Raises OSError and as `Starter.start`.
        """
        self._kill_reason: str | None = None
        self.connection, theirs = socket.socketpair()
        try:
            with theirs:
                self._process = starter.start(order(theirs.fileno()))
        except BaseException:
            self.connection.close()
            raise

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    def kill(self, reason: str) -> None:
        """Sends SIGKILL, unless it has ended. The first reason stands."""
        if not self.has_ended():
            self._kill_reason = self._kill_reason or reason
            self._process.kill()

    def has_ended(self) -> bool:
        """Whether the process is gone."""
        return self._process.poll() is not None

    def wait(self, timeout_s: float | None = None) -> bool:
        """Waits for its end. Returns whether it has ended."""
        return self._process.wait(timeout_s) is not None

    def ending(self, explained: Callable[[int], Ending] = exited_with, doing: str = "") -> Ending:
        """How the child has ended; to be called after its end.

        explained  exit code above 0 -> the end that it means
        doing      what it was doing, for an end that neither its owner nor an exit code explains
        """
        code = self._process.poll()
        assert code is not None, "the process has ended"
        if self._kill_reason is not None:
            return Ending(self._kill_reason)
        if code > 0:
            return explained(code)
        domain = Domain.USER if doing else Domain.INTERNAL if -code in _CRASHES else Domain.EXTERNAL
        return Ending(f"left{doing}" if code == 0 else _killed_by(-code) + doing, clean=code == 0, domain=domain)


def _killed_by(number: int) -> str:
    try:
        name = signal.Signals(number).name
    except ValueError:
        name = "unknown"
    hint = "; the system kills so when memory runs out" if number == signal.SIGKILL else ""
    return f"killed by signal {number} ({name}{hint})"
