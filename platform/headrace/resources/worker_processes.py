"""Workers that are processes of the coordinator's host: the resource driver `local`.

    <home>/workers/<id>/process.json   pid of the worker; written around its start, removed with the last of it
    <home>/workers/<id>/output.log     what it printed

The processes outlive the coordinator, and join the next one. A process is recognised by its pid and the marks in its
command line.
"""

from __future__ import annotations

import json
import os
import shutil
import threading
import time
from collections.abc import Mapping
from pathlib import Path

from headrace.core.errors import ExternalError, HeadraceError
from headrace.core.files.home_files import PRIVATE_FILE, make_private_folder, replace_file
from headrace.core.settings import Home
from headrace.processes.detached import ModuleCommand, Surroundings
from headrace.processes.marked_process import MarkedProcess, start_module
from headrace.processes.worker_folders import clear
from headrace.resources.driver import WorkerPhase, WorkerReport
from headrace.resources.worker_order import WORKER_ROLE, WorkerOrder

RECORD, LOG, RELEASED = "process.json", "output.log", "released"
KILL_AFTER_SECONDS = 40.0
"""A worker that was asked to end is killed when it is released again after this time."""
ENDED_KEPT = 20
"""The folders of so many ended workers are kept, for their logs."""
REASON_BYTES_MAX = 300


class WorkerProcesses:
    """The driver. order: of all workers; environment: theirs."""

    def __init__(self, home: Home, order: WorkerOrder, environment: Mapping[str, str]) -> None:
        self._home = home
        self._folder = home.root / "workers"
        self._order = order
        self._environment = {**environment, "HEADRACE_HOME": str(home.root), "PYTHONUNBUFFERED": "1"}
        # a worker that is being started has a record without a process, as one that has ended
        self._lock = threading.Lock()

    def start(self, worker: str) -> None:
        """Starts the process. Raises ExternalError."""
        folder = self._folder / worker
        with self._lock:
            if (folder / RECORD).exists():
                return
            try:
                make_private_folder(folder)
                # before the process: no driver would know one that is started and not recorded
                _write(folder, None)
                command = worker_module(self._home, self._order, worker)
                _write(folder, start_module(command, Surroundings(self._home.root, folder / LOG, self._environment)))
            except (OSError, HeadraceError) as error:
                raise ExternalError(f"worker {worker} cannot be started: {error}", retry=True) from error

    def release(self, worker: str) -> None:
        """Asks the process to end; kills it if it was asked before and had time. Removes the record of an ended one."""
        folder = self._folder / worker
        with self._lock:
            if not (folder / RECORD).exists():
                return
            process = self._process(folder)
            if process is None or not process.is_alive():
                (folder / RECORD).unlink(missing_ok=True)
                (folder / RELEASED).unlink(missing_ok=True)
                clear(folder)
                self._prune()
            elif _released_seconds(folder) > KILL_AFTER_SECONDS:
                process.kill()
            else:
                if not (folder / RELEASED).exists():
                    (folder / RELEASED).touch(PRIVATE_FILE)
                process.ask_to_end()

    def workers(self) -> tuple[WorkerReport, ...]:
        """The workers with a record."""
        with self._lock:
            return tuple(self._report(each.parent) for each in sorted(self._folder.glob(f"*/{RECORD}")))

    def close(self) -> None:
        """Has nothing to release."""

    def _report(self, folder: Path) -> WorkerReport:
        process = self._process(folder)
        if process is not None and process.is_alive():
            return WorkerReport(folder.name, WorkerPhase.RUNNING)
        return WorkerReport(folder.name, WorkerPhase.ENDED, _last_line(folder / LOG))

    def _process(self, folder: Path) -> MarkedProcess | None:
        """The process of a record; None if the coordinator died before it had started one."""
        try:
            pid = json.loads((folder / RECORD).read_text())["pid"]
        except (OSError, ValueError, KeyError):
            return None
        return None if pid is None else MarkedProcess(pid, (WORKER_ROLE, folder.name, home_mark(self._home)))

    def _prune(self) -> None:
        """Deletes the folders of the workers that ended first."""
        ended = [each.parent for each in self._folder.glob(f"*/{LOG}") if not (each.parent / RECORD).exists()]
        for folder in sorted(ended, key=lambda each: each.stat().st_mtime)[:-ENDED_KEPT]:
            shutil.rmtree(folder, ignore_errors=True)


def worker_module(home: Home, order: WorkerOrder, worker: str) -> ModuleCommand:
    """The command of a worker of this home."""
    # Python ignores unknown -X options: this one only distinguishes the workers of two homes
    return ModuleCommand("headrace", order.arguments(worker), ("-X", home_mark(home)))


def home_mark(home: Home) -> str:
    """The argument that only workers of this home have."""
    return f"headrace-home={home.root}"


def _write(folder: Path, pid: int | None) -> None:
    replace_file(folder / RECORD, json.dumps({"pid": pid}).encode(), mode=PRIVATE_FILE)


def _released_seconds(folder: Path) -> float:
    """How long ago the process was asked to end."""
    try:
        return time.time() - (folder / RELEASED).stat().st_mtime
    except FileNotFoundError:
        return 0.0


def _last_line(log: Path) -> str:
    """The end of a process's output, which has the reason if it did not start."""
    try:
        with log.open("rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - REASON_BYTES_MAX))
            lines = file.read().decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""
