"""A command that runs: the part of `subprocess.Popen` that tests use, for a process that the server owns."""

from __future__ import annotations

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO

TESTS = Path(__file__).parents[3]
START_SECONDS = 240.0


def _of_interpreters(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(("PYTHON", "LD_"))}


# as pytest was started: tests set some of these later
_AT_START = _of_interpreters(os.environ)
_PATH = {"PYTHONPATH": ""}


def can_be_forked(environment: Mapping[str, str]) -> bool:
    """Whether a fork of the server can be what a fresh interpreter with this environment is: also with a PYTHONPATH."""
    return _of_interpreters(environment) | _PATH == _AT_START | _PATH


class Command:
    """`headrace <arguments>`, started in `folder`. Its output is text."""

    def __init__(self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str]) -> None:
        self.args = ["headrace", *arguments]
        self.stdout, out = _pipe()
        self.stderr, err = _pipe()
        try:
            self._run = _server().start(self.args[1:], folder, environment, (out, err))
        finally:
            os.close(out)
            os.close(err)
        self.pid = self._run.pid

    @property
    def returncode(self) -> int | None:
        """Its exit code, below 0 the signal that ended it; None: it runs."""
        return self._run.code

    def poll(self) -> int | None:
        """As `returncode`."""
        return self._run.code

    def wait(self, timeout: float | None = None) -> int:
        """Waits for its end. Raises subprocess.TimeoutExpired."""
        if not self._run.ended.wait(timeout):
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        assert self._run.code is not None, "it has ended"
        return self._run.code

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """Waits for its end; returns what it printed. Raises subprocess.TimeoutExpired."""
        read: dict[str, str] = {}

        def take(name: str, stream: IO[str]) -> None:
            read[name] = stream.read()

        streams = {"out": self.stdout, "err": self.stderr}
        threads = [threading.Thread(target=take, args=each, daemon=True) for each in streams.items()]
        for thread in threads:
            thread.start()
        self.wait(timeout)
        for thread in threads:
            # processes that it left behind may hold its output open
            thread.join(timeout)
            if thread.is_alive():
                raise subprocess.TimeoutExpired(self.args, timeout or 0.0)
        self._close()
        return read["out"], read["err"]

    def send_signal(self, number: int) -> None:
        """Signals it, unless it has ended."""
        if self._run.code is None:
            # the server has collected it before its code is known here
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)

    def terminate(self) -> None:
        """Sends SIGTERM."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """Sends SIGKILL."""
        self.send_signal(signal.SIGKILL)

    def __enter__(self) -> Command:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()
        self.wait()

    def _close(self) -> None:
        self.stdout.close()
        self.stderr.close()


class _Run:
    """What is known of one command."""

    def __init__(self) -> None:
        self.pid = 0
        self.code: int | None = None
        self.error = ""
        self.started = threading.Event()
        self.ended = threading.Event()

    def take(self, answer: dict[str, object]) -> None:
        if "code" in answer:
            self.code = int(str(answer["code"]))
            self.ended.set()
            return
        self.pid, self.error = int(str(answer.get("pid", 0))), str(answer.get("error", ""))
        self.started.set()


class _Server:
    """The connection of this test process to its server."""

    def __init__(self) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            number = theirs.fileno()
            # not by PYTHONPATH: commands hand that on to the processes that they start
            module = "support.processes.forked.server"
            code = f"import sys; sys.path.append({str(TESTS)!r}); from {module} import main; main({number})"
            own = {name: value for name, value in os.environ.items() if name not in _of_interpreters(os.environ)}
            self._process = subprocess.Popen([sys.executable, "-c", code], env=own | _AT_START, pass_fds=[number])
        self._connection = ours
        self._numbers = itertools.count()
        self._runs: dict[int, _Run] = {}
        threading.Thread(target=self._read, name="forked-commands", daemon=True).start()

    def start(
        self, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], descriptors: tuple[int, int]
    ) -> _Run:
        """Starts a command; returns once it has a pid."""
        number, run = next(self._numbers), _Run()
        self._runs[number] = run
        document = {
            "number": number,
            "arguments": list(arguments),
            "folder": str(folder),
            "environment": dict(environment),
        }
        socket.send_fds(self._connection, [json.dumps(document).encode()], descriptors)
        assert run.started.wait(START_SECONDS), f"headrace {arguments} was not started"
        assert not run.error, run.error
        return run

    def _read(self) -> None:
        while data := self._connection.recv(1 << 16):
            answer = json.loads(data)
            run = self._runs[answer["number"]]
            if "code" in answer:
                del self._runs[answer["number"]]
            run.take(answer)


@cache
def _server() -> _Server:
    """One for this process, from the first command to the end."""
    return _Server()


def _pipe() -> tuple[IO[str], int]:
    reading, writing = os.pipe()
    return os.fdopen(reading, encoding="utf-8", errors="replace"), writing
