"""`python -m headrace.deployment.yarn.attendant headrace-attendant ..`: attends the job or program of an application of
YARN. Its parent, the ApplicationMaster, ends the application with this process's exit code.

The process ends with its parent, including one that is killed, and ends the program: the next attempt starts it again.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from headrace.client.discovery import COORDINATOR_VARIABLE, connect
from headrace.client.http import Client
from headrace.client.requests import SubmitRequest
from headrace.client.submission import APPLICATION_VARIABLE
from headrace.client.token_files import TOKEN_FILE_VARIABLE
from headrace.coordinator.store.sealing import Sealer
from headrace.core.errors import HeadraceError
from headrace.core.retry import Backoff
from headrace.job_cluster.attendant import Attendant, submitted
from headrace.processes.template.process import die_with_parent
from headrace.yarn.container import KEY, TOKEN, secret_file
from headrace.yarn.records import FinalStatus

LOG = logging.getLogger("headrace.yarn")
FINISHED, FAILED, CANCELED = 0, 1, 4
"""Exit codes of the attendant."""
RESTARTS_MAX = 10
BACKOFF = Backoff(first_s=0.5, max_s=5.0)
END_SECONDS = 5.0
_STATUS = {FINISHED: FinalStatus.SUCCEEDED, FAILED: FinalStatus.FAILED, CANCELED: FinalStatus.KILLED}


class AttendantProcess:
    """The attendant as a child of the ApplicationMaster, started again if it is killed.

    on_end  called in a thread once the application's end is known
    """

    def __init__(self, command: Sequence[str], on_end: Callable[[], None]) -> None:
        self._command = command
        self._on_end = on_end
        self._closing = threading.Event()
        self._child: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._run, name="headrace-attendant-watch", daemon=True)
        self.status: FinalStatus | None = None
        """How the application has ended; None: it has not."""

    def start(self) -> None:
        """Starts it."""
        self._thread.start()

    def close(self) -> None:
        """Ends it, unless it has ended."""
        self._closing.set()
        child = self._child
        if child is not None and child.poll() is None:
            child.terminate()
            try:
                child.wait(END_SECONDS)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def _run(self) -> None:
        pause_s = 0.0
        for _ in range(RESTARTS_MAX + 1):
            self._child = subprocess.Popen([*self._command, "--parent", str(os.getpid())])
            code = self._child.wait()
            if self._closing.is_set():
                return
            if code in _STATUS:
                self.status = _STATUS[code]
                break
            LOG.warning("the attendant has ended with code %d, and is started again", code)
            pause_s = BACKOFF.next_s(pause_s)
            self._closing.wait(pause_s)
        self.status = self.status or FinalStatus.FAILED
        self._on_end()


ROLE = "headrace-attendant"
_CODES = {"FINISHED": FINISHED, "CANCELED": CANCELED}


@dataclass(frozen=True, slots=True)
class YarnPart:
    """By the contract `job_cluster.attendant.Part`. election: URL by which jobs of the program find the leader."""

    election: str

    @property
    def has_others(self) -> bool:
        """YARN starts another attempt, whose attendant goes on."""
        return True

    def keep_alive(self) -> None:
        """The coordinator is this process's parent."""

    def coordinator(self) -> Client:
        """Opens a client of the coordinator of this container, which has recorded itself in the home."""
        return connect()

    def leader(self) -> Client:
        """Opens a client of the same one."""
        return connect()

    def environment(self) -> Mapping[str, str]:
        """Returns the environment of the program, which finds its jobs when it is started again, and imports what is
        shipped beside it."""
        own = {COORDINATOR_VARIABLE: self.election, APPLICATION_VARIABLE: str(os.getpid())}
        # files of a container are links, and Python searches modules beside the target of the program's link
        path = os.pathsep.join([str(Path.cwd()), *filter(None, [os.environ.get("PYTHONPATH")])])
        return {**os.environ, **own, "PYTHONPATH": path, TOKEN_FILE_VARIABLE: str(secret_file(TOKEN))}

    def stop(self, *, is_done: bool) -> None:
        """Does nothing: the parent ends the application when this process has ended."""


def main() -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser(prog="headrace.deployment.yarn.attendant")
    parser.add_argument("role", choices=[ROLE], help="marks the process in lists of processes")
    parser.add_argument("--parent", type=int, required=True)
    parser.add_argument("--election", required=True)
    parser.add_argument("--linger-ms", type=int, required=True)
    parser.add_argument("--request", type=Path)
    parser.add_argument("--program")
    given = parser.parse_args()
    part = YarnPart(given.election)
    attendant = Attendant(part, linger_s=given.linger_ms / 1_000)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: attendant.ask_to_end())
    die_with_parent(given.parent, by=signal.SIGTERM)
    try:
        raise SystemExit(_attended(attendant, part, given.request, given.program))
    except HeadraceError as error:
        print(f"error: {error}", file=sys.stderr)  # noqa: T201 - the process's own stderr
        raise SystemExit(FAILED) from error


def _attended(attendant: Attendant, part: YarnPart, request: Path | None, program: str | None) -> int:
    if request is not None:
        sealed = Sealer(secret_file(KEY)).unseal(request.read_text())
        state = attendant.job(submitted(part, SubmitRequest.model_validate_json(sealed)))
        return _CODES.get(state, FAILED)
    assert program is not None, "an attendant has a job or a program"
    return FINISHED if attendant.program([program]) == 0 else FAILED


if __name__ == "__main__":
    main()
