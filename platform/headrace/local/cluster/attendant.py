"""The attendant of a cluster that serves one job or one application: it supervises the cluster and ends it with them.

    submit --mode per-job      start a cluster in its own home, submit, then an attendant waits for the job's end
    submit --mode application  the same for a Python program: the attendant runs it beside the coordinator, as its
                               child; the jobs that it submits run on that cluster

The attendant is a process (`headrace-attendant`) that outlives the command. It restarts a coordinator or worker that
dies. The home stays after the end: results, logs, checkpoints. SIGTERM ends job or program, then the cluster.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from headrace.client.discovery import cluster_folder, connect, own_clusters
from headrace.client.models import FINAL_STATES
from headrace.core.errors import ExternalError, HeadraceError, UnreachableError
from headrace.core.files.private_files import PRIVATE_FILE, make_private_folder
from headrace.core.files.replaced_file import replace_file
from headrace.core.settings import Home
from headrace.local.cluster.commands import environment, log_file
from headrace.local.cluster.lifecycle import start, status, stop
from headrace.local.marked_process import MarkedProcess, start_module
from headrace.processes.detached import ModuleCommand, Surroundings

ROLE = "headrace-attendant"
LOOK_SECONDS = 1.0
RESTARTS_MAX = 100
"""Restarts of dead processes before the cluster is given up."""
_CHILD_SECONDS = 30.0


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


class Attendant:
    """Waits for a job or runs a program, restarts the cluster's dead processes meanwhile, and stops the cluster.
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
            if state not in FINAL_STATES:
                self._cancel(job)
        finally:
            stop(self._home)
        return 0 if state == "FINISHED" else 1

    def program(self, command: Sequence[str]) -> int:
        """Runs the program to its end. Returns its exit code."""
        child = subprocess.Popen([sys.executable, *command], env=environment(self._home))
        process = MarkedProcess(child.pid, (), child)
        try:
            while process.is_alive():
                if self._asked_to_end.wait(LOOK_SECONDS):
                    process.terminate(patience_seconds=_CHILD_SECONDS)
                else:
                    self._keep_alive()
        finally:
            process.terminate(patience_seconds=_CHILD_SECONDS)
            stop(self._home)
        # last: a reader of this file finds nothing running any more
        replace_file(exit_file(self._home), f"{child.returncode}\n".encode(), mode=PRIVATE_FILE)
        return child.returncode

    def _state(self, job: str) -> str | None:
        self._keep_alive()
        try:
            with connect() as client:
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
        # the restarted coordinator resumes the job from its journal
        start(self._home)

    def _cancel(self, job: str) -> None:
        try:
            with connect() as client:
                client.wait_trigger(client.cancel(job), timeout_s=_CHILD_SECONDS)
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
