"""Starts processes by forking a template, and keeps a template ready: the owner's side.

    fork_off ──> BARE ──prepare──> STARTING ──hello──> READY
                                      ▲                  │  order, pid
                                      └──────────────────┘ it died, it hangs, files on the import path have changed (and
                                      a fresh interpreter  the installed version has not)

An owner forks its first template off itself, before it has threads; the template imports its programs when a process is
first requested. Later templates are fresh interpreters, because a process with threads must not fork. If no template
starts, or if an order needs another PYTHONPATH than the owner's, the process is started as a fresh interpreter.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
import threading
import time
import traceback
from collections.abc import Sequence
from typing import NoReturn

from headrace.core.errors import ExternalError
from headrace.core.network.frames import receive_exactly
from headrace.processes.child import Child, ForkedChild, Orphans
from headrace.processes.forking import StartMethod, has_no_threads_at_work, quiet_fork, start_method, variables_at_start
from headrace.processes.installation import Fingerprint, fingerprint, import_path, require_running_version
from headrace.processes.order import ProcessOrder, close_all_but, send_order
from headrace.processes.spawning import SpawnStarter, Starter
from headrace.processes.template import process as template_process
from headrace.processes.template.title import set_command_line

READY_SECONDS = 60.0
"""A template that is not ready after this time is killed. Imports take seconds, even on a busy host."""
ANSWER_SECONDS = 20.0
"""A template that does not answer within this time is stopped or broken: a fork needs milliseconds."""
FAILURES_MAX = 3
"""Consecutive templates that may fail; after that the owner only starts fresh interpreters."""
_PR_SET_CHILD_SUBREAPER = 36

_log = logging.getLogger(__name__)


def own_starter(programs: Sequence[str], *, imports_too: bool = False) -> Starter:
    """Returns the starter of a process that exists to own others, by HEADRACE_START_METHOD.

    Must be called before anything else, because it forks the template off this process. If this process already has
    threads, of polars for example, the template is a fresh interpreter. Raises UserError for an unknown method.

    imports_too: this process needs the programs' imports, too: they are imported once, before the fork; else it stays
    small
    """
    if start_method() is StartMethod.SPAWN:
        return SpawnStarter()
    if not has_no_threads_at_work():
        return TemplateStarter(programs)
    if imports_too:
        template_process.preload(programs)
    return TemplateStarter(programs, _fork_off(programs), reaps_orphans=True)


class _Template:
    """One template process and the connection to it."""

    def __init__(self, process: Child, connection: socket.socket, path: Fingerprint) -> None:
        self.process = process
        self.path = path
        self._connection = connection
        self._ready = False
        self._ready_by_s: float | None = None

    def is_ready(self, timeout_s: float) -> bool:
        """Whether it accepts orders; the first call makes it import its programs. Raises OSError if it has ended or is
        late.
        """
        if not self._ready:
            if self._ready_by_s is None:
                self._ready_by_s = time.monotonic() + READY_SECONDS
                self._connection.sendall(template_process.PREPARE)
            self._connection.settimeout(max(timeout_s, 0.0))
            try:
                hello = self._connection.recv(1)
            except (BlockingIOError, TimeoutError) as error:
                if time.monotonic() > self._ready_by_s:
                    raise OSError(f"not ready after {READY_SECONDS:g} s") from error
                return False
            if hello != template_process.READY:
                raise OSError("it ended while it started")
            self._ready = True
        return True

    def fork(self, order: ProcessOrder, answer_s: float) -> int:
        """Returns the pid of the child. Raises OSError if the template fails, ExternalError if the fork does."""
        self._connection.settimeout(answer_s)
        send_order(self._connection, order)
        answer = receive_exactly(self._connection.recv_into, template_process.PID.size)
        if answer is None:
            raise OSError("it ended")
        pid = int(template_process.PID.unpack(answer)[0])
        if pid < 0:
            raise ExternalError(f"{order.role} cannot be started: {os.strerror(-pid)}", retry=True)
        return pid

    def has_ended(self) -> bool:
        """Whether its process has ended."""
        return self.process.poll() is not None

    def end(self) -> None:
        """Kills the template; its children live on."""
        # a template ends when its socket closes; the kill is for one that hangs
        self._connection.close()
        self.process.kill()
        self.process.wait()


class TemplateStarter:
    """Starts processes from a template. Safe to use from several threads.

    programs        modules that templates import
    first           the template that this process forked off itself
    reaps_orphans   this process collects the exit codes of unknown processes: descendants of its children, which it
                    adopts as a subreaper. Not for a process that has other children than these
    answer_s        how long a template may take to fork
    """

    def __init__(
        self,
        programs: Sequence[str],
        first: _Template | None = None,
        *,
        reaps_orphans: bool = False,
        answer_s: float = ANSWER_SECONDS,
    ) -> None:
        self._programs = tuple(programs)
        # captured now: a job's own entries on the path are not for other processes
        self._path = import_path()
        self._at_start = variables_at_start(os.environ)
        self._template = first
        self._answer_s = answer_s
        self._lock = threading.Lock()
        self._failures = 0
        self._spawning = SpawnStarter()
        self._orphans = Orphans() if reaps_orphans else None
        self._closed = False
        if first is not None:
            self._know(first.process)
        become_subreaper()

    def ready(self) -> bool:
        """Whether `start` would return at once; starts a template if there is none."""
        # another thread starts a process just now, and this call must not block
        if not self._lock.acquire(blocking=False):
            return False
        try:
            if self._orphans is not None:
                self._orphans.reap()
            return self._prepared(timeout_s=0.0)
        finally:
            self._lock.release()

    def start(self, order: ProcessOrder) -> Child:
        """Starts a process; waits for a template if there is none. Raises ExternalError, UserError."""
        with self._lock:
            while (
                self._failures < FAILURES_MAX
                and not self._closed
                and variables_at_start(order.environment) == self._at_start
            ):
                try:
                    # each round forks, waits, or discards a template: `FAILURES_MAX` ends the loop
                    if self._prepared(timeout_s=READY_SECONDS):
                        return self._fork(order)
                except OSError as error:
                    self._discard(error)
            child = self._spawning.start(order)
            self._know(child)
            return child

    def close(self) -> None:
        """Ends the template; started processes live on. Idempotent."""
        with self._lock:
            self._closed = True
            if self._template is not None:
                self._template.end()
                self._template = None

    def _prepared(self, timeout_s: float) -> bool:
        """Whether orders can be accepted: by a template, or because there will be none."""
        if self._failures >= FAILURES_MAX or self._closed:
            return True
        current = fingerprint(self._path)
        if self._template is not None and self._template.path != current:
            # changed packages are fine, another headrace version is not: its slots would not speak this worker's
            # protocol
            require_running_version("a process was")
            _log.info("packages have changed: a new template is started")
            self._template.end()
            self._template = None
        try:
            if self._template is None:
                self._template = _start_template(self._programs, current)
                self._know(self._template.process)
            elif self._template.has_ended():
                raise OSError("it ended")
            return self._template.is_ready(timeout_s)
        except OSError as error:
            self._discard(error)
            return False

    def _fork(self, order: ProcessOrder) -> Child:
        assert self._template is not None, "a template was prepared"
        if self._failures >= FAILURES_MAX:
            raise OSError("no template comes up")
        child = ForkedChild(self._template.fork(order, self._answer_s))
        self._failures = 0
        self._know(child)
        return child

    def _know(self, child: Child) -> None:
        if self._orphans is not None:
            self._orphans.know(child)

    def _discard(self, error: OSError) -> None:
        if self._template is None:
            return
        code = self._template.process.poll()
        self._template.end()
        self._template = None
        self._failures += 1
        how = f"{error}" if code is None else f"{error}, exit code {code}"
        then = "fresh interpreters from now on" if self._failures >= FAILURES_MAX else "another one is started"
        _log.warning("the template failed: %s; %s", how, then)


def become_subreaper() -> None:
    """Makes Linux reparent orphaned descendants to this process; pid 1 receives them anyway."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def _fork_off(programs: Sequence[str]) -> _Template:
    """Forks the template off this process, which has a single thread of its own."""
    ours, theirs = socket.socketpair()
    owner = os.getpid()
    sys.stdout.flush()
    sys.stderr.flush()
    # before the fork: the template's grandchildren must find this process as their subreaper
    become_subreaper()
    pid = quiet_fork()
    if pid == 0:
        _become_template(theirs, owner, programs)
    theirs.close()
    return _Template(ForkedChild(pid), ours, fingerprint(import_path()))


def _become_template(connection: socket.socket, owner: int, programs: Sequence[str]) -> NoReturn:
    """Runs in the fork: closes what it inherited, except stderr, and serves."""
    try:
        os.setsid()
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        for ending in (signal.SIGTERM, signal.SIGHUP):
            signal.signal(ending, signal.SIG_DFL)
        template_process.die_with_parent(owner)
        number = connection.fileno()
        null = os.open(os.devnull, os.O_RDWR)
        os.dup2(null, 0)
        os.dup2(null, 1)
        close_all_but({0, 1, 2, number})
        command = [sys.executable, "-P", "-m", template_process.PROGRAM, *_arguments(number, owner, programs)]
        set_command_line(command, os.environ, template_process.ROLE)
        template_process.serve(connection, owner, programs)
    except BaseException:  # the shell of the process: the owner starts another template
        traceback.print_exc()
        os._exit(template_process.PROGRAM_FAILED)


def _start_template(programs: Sequence[str], path: Fingerprint) -> _Template:
    ours, theirs = socket.socketpair()
    with theirs:
        number = theirs.fileno()
        order = ProcessOrder(
            program=template_process.PROGRAM,
            arguments=_arguments(number, os.getpid(), programs),
            environment=os.environ | template_process.PREPARED_ENVIRONMENT,
            stdout=2,
            stderr=2,
            keep=(number,),
        )
        try:
            process = SpawnStarter().start(order)
        except BaseException:
            ours.close()
            raise
    return _Template(process, ours, path)


def _arguments(fd: int, owner: int, programs: Sequence[str]) -> tuple[str, ...]:
    each = [part for program in programs for part in ("--program", program)]
    return (template_process.ROLE, "--fd", str(fd), "--owner", str(owner), *each)
