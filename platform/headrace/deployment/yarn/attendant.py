"""`python -m headrace.deployment.yarn.attendant headrace-attendant ..`: attends the job or program of an application of
YARN. Its parent, the ApplicationMaster, ends the application with this process's exit code.

It ends with its parent, also with one that is killed, and ends the program: the next attempt starts it again.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from headrace.client.discovery import COORDINATOR_VARIABLE, connect
from headrace.client.http import Client
from headrace.client.requests import SubmitRequest
from headrace.client.submission import APPLICATION_VARIABLE
from headrace.client.token_files import TOKEN_FILE_VARIABLE
from headrace.coordinator.store.sealing import Sealer
from headrace.core.errors import HeadraceError
from headrace.deployment.yarn.attendant_process import CANCELED, FAILED, FINISHED
from headrace.job_cluster.attendant import Attendant
from headrace.job_cluster.submitting import submitted
from headrace.processes.template.process import die_with_parent
from headrace.yarn.container import KEY, TOKEN, secret_file

ROLE = "headrace-attendant"
_CODES = {"FINISHED": FINISHED, "CANCELED": CANCELED}


@dataclass(frozen=True, slots=True)
class YarnPart:
    """By the contract of `job_cluster.part`. election: URL by which jobs of the program find the leader."""

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
        # files of a container are links, and Python looks for modules beside what the program's link leads to
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
