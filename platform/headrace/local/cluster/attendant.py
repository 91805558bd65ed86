"""The attendant's process of a cluster that serves one job or one application.

    submit --mode per-job      start a cluster in its own home, submit, then an attendant waits for the job's end
    submit --mode application  the same for a Python program, which the attendant runs (`headrace.job_cluster`)

The attendant is a process (`headrace-attendant`) that outlives the command. It restarts a coordinator or worker that
dies. The home stays after the end: results, logs, checkpoints. SIGTERM ends job or program, then the cluster.

With an election (`--ha`) the same command on each of several hosts makes one cluster, each host with an attendant of
its own home. The job is submitted once, by its key. SIGTERM ends the part of one host.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headrace.client.discovery import COORDINATOR_VARIABLE, cluster_folder, own_clusters
from headrace.client.submission import APPLICATION_VARIABLE
from headrace.core.errors import ExternalError, HeadraceError, UnreachableError, UserError
from headrace.core.files.home_files import PRIVATE_FILE, make_private_folder, replace_file
from headrace.core.settings import Home
from headrace.job_cluster.attendant import LINGER_SECONDS, Attendant
from headrace.local.cluster.commands import environment, log_file
from headrace.local.cluster.lifecycle import start, status, stop
from headrace.local.cluster.own_client import coordinator_client, leader_client
from headrace.local.cluster.record import ClusterRecord, read_record
from headrace.processes.detached import ModuleCommand, Surroundings
from headrace.processes.marked_process import MarkedProcess, start_module

if TYPE_CHECKING:
    from headrace.client.http import Client


ROLE = "headrace-attendant"


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


def run_program(attendant: Attendant, home: Home, command: Sequence[str]) -> int:
    """Runs the program to its end beside the cluster in `home`, which it stops. Returns its exit code."""
    code = attendant.program(command)
    # last: a reader of this file finds nothing running any more
    replace_file(exit_file(home), f"{code}\n".encode(), mode=PRIVATE_FILE)
    return code


RESTARTS_MAX = 100
"""Greatest number of restarts of dead processes; then the cluster ends."""


class HomePart:
    """By the contract `job_cluster.attendant.Part`: a coordinator and workers on this host, restarted when they die."""

    def __init__(self, home: Home) -> None:
        self._home = home
        self._restarts = 0

    @property
    def has_others(self) -> bool:
        """Whether other hosts take part: those of an election do."""
        return self._record().election is not None

    def keep_alive(self) -> None:
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

    def coordinator(self) -> Client:
        """Opens a client of the home's coordinator."""
        return coordinator_client(self._home, self._record())

    def leader(self) -> Client:
        """Opens a client of the coordinator that leads."""
        return leader_client(self._home, self._record())

    def environment(self) -> Mapping[str, str]:
        """Returns the environment of the program. With an election it follows the leader, and finds its jobs when it is
        started again.
        """
        election = self._record().election
        own = environment(self._home)
        if election is None:
            return own
        return {**own, COORDINATOR_VARIABLE: election.url, APPLICATION_VARIABLE: str(os.getpid())}

    def stop(self, *, is_done: bool) -> None:
        """Stops the home's processes."""
        stop(self._home)

    def _record(self) -> ClusterRecord:
        """The record of the cluster. Raises UserError if it was stopped meanwhile."""
        record = read_record(self._home)
        if record is None:
            raise UserError(f"the cluster in {self._home.root} was stopped")
        return record


def main(arguments: list[str] | None = None) -> None:
    """The process's entry point."""
    parser = argparse.ArgumentParser(prog="headrace.local.cluster.attendant")
    parser.add_argument("role", choices=[ROLE], help="marks the process in lists of processes")
    parser.add_argument("--home", type=Path, required=True)
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--job")
    what.add_argument("--program", nargs=argparse.REMAINDER)
    options = parser.parse_args(arguments)
    os.environ["HEADRACE_HOME"] = str(options.home)
    home = Home(options.home)
    # the home stays: only who waits for a job asks the cluster for its end
    attendant = Attendant(HomePart(home), linger_s=LINGER_SECONDS if options.job else 0.0)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: attendant.ask_to_end())
    try:
        if options.job:
            code = 0 if attendant.job(options.job) == "FINISHED" else 1
        else:
            code = run_program(attendant, home, options.program)
    except HeadraceError as error:
        sys.stderr.write(f"error: {error}\n")
        raise SystemExit(1) from error
    raise SystemExit(code)


if __name__ == "__main__":
    main()
