"""A cluster of its own for one job or one application: started for it, attended, and ended with it.

    submit --mode per-job      start a cluster in a home of its own, submit, then an attendant waits for the job's end
    submit --mode application  the same for a Python program: the attendant runs it beside the coordinator, as its
                               child; the jobs that it submits run on that cluster

The attendant is a process of its own (`headrace-attendant`), which outlives the command. A coordinator or worker that
dies meanwhile it starts again. What is left in the end is the home: results, logs, checkpoints. SIGTERM ends job or
program, and the cluster, in order.
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
from headrace.core.errors import ExternalError, HeadraceError, Unreachable
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
"""Starts of what died, before a cluster is given up."""
_CHILD_SECONDS = 30.0


def own_home(home: Home, name: str) -> Home:
    """The home of a cluster that serves one job or application: a new folder inside of the user's."""
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
    """Its command line."""
    return ModuleCommand("headrace.local.cluster.attendant", (ROLE, "--home", str(home.root), *what))


def exit_file(home: Home) -> Path:
    """Holds the program's exit code, once it has ended."""
    return cluster_folder(home) / "program.exit"


class Attendant:
    """Waits for a job or runs a program, keeps the cluster alive meanwhile, and stops it. Blocking."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._asked_to_end = threading.Event()
        self._restarts = 0

    def ask_to_end(self) -> None:
        """From a signal handler: end now, in order."""
        self._asked_to_end.set()

    def job(self, job: str) -> int:
        """Until the job has ended. 0: it finished, 1 otherwise."""
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
        """Until the program has ended: its exit code."""
        child = subprocess.Popen([sys.executable, *command], env=environment(self._home))
        try:
            while child.poll() is None:
                if self._asked_to_end.wait(LOOK_SECONDS):
                    self._end(child)
                else:
                    self._keep_alive()
        finally:
            self._end(child)
            stop(self._home)
        replace_file(exit_file(self._home), f"{child.returncode}\n".encode(), mode=PRIVATE_FILE)
        return child.returncode

    def _state(self, job: str) -> str | None:
        self._keep_alive()
        try:
            with connect() as client:
                return client.status(job).state
        except ExternalError:
            return None  # it restarts: the next look tells

    def _keep_alive(self) -> None:
        """Starts what died."""
        if not status(self._home).dead:
            return
        self._restarts += 1
        if self._restarts > RESTARTS_MAX:
            raise Unreachable(f"the cluster in {self._home.root} died {RESTARTS_MAX} times")
        start(self._home)

    def _cancel(self, job: str) -> None:
        try:
            with connect() as client:
                client.wait_trigger(client.cancel(job), timeout_s=_CHILD_SECONDS)
        except HeadraceError as error:
            sys.stderr.write(f"job {job} could not be canceled: {error}\n")

    def _end(self, child: subprocess.Popen[bytes]) -> None:
        if child.poll() is not None:
            return
        child.terminate()
        try:
            child.wait(_CHILD_SECONDS)
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def main(arguments: list[str] | None = None) -> None:
    """The process's entry."""
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
