"""The operating-system process of a broker: started, recognised by its marks, ended.

It has one of two lifetimes:

* *leashed*: it ends with the process that started it, however that ends. A shell waits on a pipe whose other end only
  the starter holds; when the starter is gone, the pipe closes and the shell kills the broker. (Linux' parent-death
  signal already fires when the starting thread ends, and other systems lack it.)
* *detached*: it runs until it is stopped. It is an orphan, so nobody must wait for it.

Both run in a session of their own: Ctrl-C at the terminal reaches the command, not its broker.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace.core.files.home_files import OTHERS, is_private, private_opener
from headrace.processes.marked_process import MarkedProcess, spawn_detached

ROLE = "headrace-broker"

_LEASH = 'read -r _; kill -TERM "$1"; sleep 10; kill -KILL "$1"'


def marks(data: Path) -> tuple[str, ...]:
    """Returns the arguments that identify the broker of `data` in a list of processes."""
    return (f"-Dheadrace.role={ROLE}", f"-Dheadrace.data={data}")


class BrokerProcess(MarkedProcess):
    """One broker process, leashed to this one or not."""

    def __init__(
        self,
        pid: int,
        data: Path,
        child: subprocess.Popen[bytes] | None = None,
        leash: subprocess.Popen[bytes] | None = None,
    ) -> None:
        super().__init__(pid, marks(data), child)
        self._leash = leash

    def terminate(self, *, patience_seconds: float) -> None:
        """Sends SIGTERM, and kills it after `patience_seconds`. Returns when it is gone."""
        super().terminate(patience_seconds=patience_seconds)
        self._drop_leash()

    def kill(self) -> None:
        """Kills it, like a crash. Returns when it is gone."""
        super().kill()
        self._drop_leash()

    def _drop_leash(self) -> None:
        """Ends the shell that waits on the pipe. Only after the broker is gone: from then on its pid may be reused."""
        leash, self._leash = self._leash, None
        if leash is not None:
            leash.kill()
            leash.wait()
            if leash.stdin is not None:
                leash.stdin.close()


def start_leashed(
    command: Sequence[str], *, data: Path, log: Path, environment: Mapping[str, str], inherit: tuple[int, ...] = ()
) -> BrokerProcess:
    """Starts a broker that ends with this process. Its output is appended to `log`; it keeps `inherit` open."""
    with open(log, "ab", opener=private_opener) as sink:
        child = subprocess.Popen(
            command,
            umask=umask_for(data),
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
    """Starts a broker that outlives this process. Its output is appended to `log`; it keeps `inherit` open."""
    pid = spawn_detached(
        command, role=ROLE, log=log, folder=data, environment=environment, inherit=inherit, umask=umask_for(data)
    )
    return BrokerProcess(pid, data)


def umask_for(data: Path) -> int:
    """Returns the umask for topics: below a home they are private to their owner, elsewhere this process's umask
    applies (-1).
    """
    return OTHERS if is_private(data) else -1
