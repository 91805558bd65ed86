"""The attendant of a cluster that serves one job or one application: it supervises the cluster and ends it with them.

    submit --mode per-job      start a cluster in its own home, submit, then an attendant waits for the job's end
    submit --mode application  the same for a Python program: the attendant runs it beside the coordinator, as its
                               child; the jobs that it submits run on that cluster

The attendant is a process (`headrace-attendant`) that outlives the command. It restarts a coordinator or worker that
dies. The home stays after the end: results, logs, checkpoints. SIGTERM ends job or program, then the cluster.

With an election (`--ha`) the same command on each of several hosts makes one cluster, each host with an attendant of
its own home. The job is submitted once, by its key. The program runs beside the coordinator that leads, and is started
again beside the next one. Each attendant stops its part when it sees the end. SIGTERM ends the part of one host.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from headrace.client.discovery import COORDINATOR_VARIABLE, cluster_folder, own_clusters
from headrace.client.models import FINAL_STATES
from headrace.client.submission import APPLICATION_VARIABLE
from headrace.core.errors import ExternalError, HeadraceError, UnreachableError, UserError
from headrace.core.files.private_files import PRIVATE_FILE, make_private_folder
from headrace.core.files.replaced_file import replace_file
from headrace.core.settings import Home
from headrace.local.cluster.commands import environment, log_file
from headrace.local.cluster.lifecycle import start, status, stop
from headrace.local.cluster.own_client import coordinator_client, leader_client
from headrace.local.cluster.program import Program
from headrace.local.cluster.record import ClusterRecord, read_record
from headrace.processes.detached import ModuleCommand, Surroundings
from headrace.processes.marked_process import MarkedProcess, start_module

ROLE = "headrace-attendant"
LOOK_SECONDS = 1.0
LINGER_SECONDS = 3.0
"""How long a cluster is there after the end of its job: a command that waits for the job reads its end."""
RESTARTS_MAX = 100
"""Restarts of dead processes before the cluster is given up."""
_CANCEL_SECONDS = 30.0


def own_home(home: Home, name: str) -> Home:
    """Returns the home of a cluster that serves one job or application: a new folder inside the user's home."""
    stamp = time.strftime("%Y%m%d-%H%M%S")
    folder = own_clusters(home) / f"{name}-{stamp}-{os.urandom(2).hex()}"
    make_private_folder(folder)
    return Home(folder)


def attend(home: Home, what: Sequence[str], folder: Path) -> MarkedProcess:
    """Starts the attendant of the cluster in `home`: `--job ID`, or `--program FILE ARGUMENTS..` run in `folder`."""
    log = log_file(home, "attendant")
    make_private_folder(log.parent)
    pid = start_module(attendant_command(home, what), Surroundings(folder, log, environment(home)))
    return MarkedProcess(pid, (ROLE, str(home.root)))


def attendant_command(home: Home, what: Sequence[str]) -> ModuleCommand:
    """Returns the attendant's command line."""
    return ModuleCommand("headrace.local.cluster.attendant", (ROLE, "--home", str(home.root), *what))


def exit_file(home: Home) -> Path:
    """Returns the file of the program's exit code, which is written when the program has ended."""
    return cluster_folder(home) / "program.exit"


class _View(NamedTuple):
    """leads: the coordinator of this home leads; exit_code: of the program, as the cluster has recorded it."""

    leads: bool
    exit_code: int | None


class Attendant:
    """Waits for a job or runs a program, restarts the dead processes of its home meanwhile, and stops them at the end.
    Blocking.
    """

    def __init__(self, home: Home) -> None:
        self._home = home
        self._asked_to_end = threading.Event()
        self._restarts = 0

    def ask_to_end(self) -> None:
        """Called by a signal handler: requests an orderly end."""
        self._asked_to_end.set()

    def job(self, job: str) -> int:
        """Waits until the job has ended. Returns 0 if it finished, 1 otherwise."""
        state = ""
        try:
            while state not in FINAL_STATES and not self._asked_to_end.wait(LOOK_SECONDS):
                state = self._state(job) or state
            if state in FINAL_STATES:
                self._asked_to_end.wait(LINGER_SECONDS)
            elif self._record().election is None:
                # with one the job goes on elsewhere
                self._cancel(job)
        finally:
            stop(self._home)
        return 0 if state == "FINISHED" else 1

    def program(self, command: Sequence[str]) -> int:
        """Runs the program to its end, or sees it end beside another leader. Returns its exit code."""
        program = Program(command, self._environment())
        code: int | None = None
        try:
            code = self._attended(program)
        finally:
            ended = program.end()
            stop(self._home)
        # asked to end before the program had ended
        code = (ended or 0) if code is None else code
        # last: a reader of this file finds nothing running any more
        replace_file(exit_file(self._home), f"{code}\n".encode(), mode=PRIVATE_FILE)
        return code

    def _attended(self, program: Program) -> int | None:
        """Runs the program wherever this home's coordinator leads; returns its exit code, None if asked to end."""
        while True:
            self._keep_alive()
            view = self._view()
            if view is not None and view.exit_code is not None:
                return view.exit_code
            # nobody answers: the program goes on, because its coordinator is being restarted
            if view is not None:
                self._follow(program, leads=view.leads)
            if self._asked_to_end.wait(LOOK_SECONDS):
                return None

    def _follow(self, program: Program, *, leads: bool) -> None:
        """Starts or ends the program, or records its end, which is then seen by all attendants of the cluster."""
        if not leads:
            # the attendant of the new leader starts it again there
            program.end()
        elif not program.has_started:
            program.start()
        elif (code := program.exit_code) is not None:
            with suppress(ExternalError), leader_client(self._home, self._record()) as client:
                client.end_application(code)

    def _view(self) -> _View | None:
        try:
            with coordinator_client(self._home, self._record()) as client:
                # a standby answers this itself, and is sent on to the leader with the next request
                leads = client.health().status == "ok"
                return _View(leads, client.cluster().application_exit_code)
        except ExternalError:
            return None

    def _state(self, job: str) -> str | None:
        self._keep_alive()
        try:
            with leader_client(self._home, self._record()) as client:
                return client.status(job).state
        except ExternalError:
            return None  # the coordinator is being restarted: the next poll shows the state

    def _keep_alive(self) -> None:
        """Restarts dead processes."""
        if not status(self._home).dead:
            return
        self._restarts += 1
        if self._restarts > RESTARTS_MAX:
            raise UnreachableError(f"the cluster in {self._home.root} died {RESTARTS_MAX} times")
        try:
            # the restarted coordinator resumes the job from its journal, or is a standby
            start(self._home)
        except ExternalError as error:
            sys.stderr.write(f"not started again, which is tried once more: {error}\n")

    def _record(self) -> ClusterRecord:
        """The record of the cluster. Raises UserError if it was stopped meanwhile."""
        record = read_record(self._home)
        if record is None:
            raise UserError(f"the cluster in {self._home.root} was stopped")
        return record

    def _environment(self) -> Mapping[str, str]:
        """The environment of the program. With an election it follows the leader, and finds its jobs when it is
        started again.
        """
        election = self._record().election
        own = environment(self._home)
        if election is None:
            return own
        return {**own, COORDINATOR_VARIABLE: election.url, APPLICATION_VARIABLE: str(os.getpid())}

    def _cancel(self, job: str) -> None:
        try:
            with leader_client(self._home, self._record()) as client:
                client.wait_trigger(client.cancel(job), timeout_s=_CANCEL_SECONDS)
        except HeadraceError as error:
            sys.stderr.write(f"job {job} could not be canceled: {error}\n")


def main(arguments: list[str] | None = None) -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser(prog="headrace.local.cluster.attendant")
    parser.add_argument("role", choices=[ROLE], help="marks the process in lists of processes")
    parser.add_argument("--home", type=Path, required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--job")
    what.add_argument("--program", nargs=argparse.REMAINDER)
    given = parser.parse_args(arguments)
    os.environ["HEADRACE_HOME"] = str(given.home)
    attendant = Attendant(Home(given.home))
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: attendant.ask_to_end())
    try:
        code = attendant.job(given.job) if given.job else attendant.program(given.program)
    except HeadraceError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(1) from error
    raise SystemExit(code)


if __name__ == "__main__":
    main()
