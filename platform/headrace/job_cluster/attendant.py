"""Waits for the job of a cluster, or runs its program, and stops this part of the cluster at the end.

    job          submits the job and waits until it has ended
    program      runs it beside the coordinator that leads, as a child; the jobs that it submits run on that cluster
    application  waits for a program that another attendant of this part runs, which may not stop the part

A cluster may have several parts, each with an attendant: the program runs beside the coordinator that leads, and is
started again beside the next one. Each attendant stops its part when it sees the end. An earlier request to end ends
the job or program, unless another part continues the cluster.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, NamedTuple, Protocol

from headrace.client.models import FINAL_STATES
from headrace.core.errors import ExternalError, HeadraceError
from headrace.processes.end_request import EndRequest
from headrace.processes.marked_process import MarkedProcess

if TYPE_CHECKING:
    from headrace.client.http import Client
    from headrace.client.requests import SubmitRequest


class Part(Protocol):
    """The processes of one host, or of one pod, in a cluster. A client is used as a context manager."""

    @property
    def has_others(self) -> bool:
        """Whether the cluster continues elsewhere when this part ends."""
        ...

    def keep_alive(self) -> None:
        """Restarts processes that have died, unless the system does. Raises HeadraceError for a part that is over."""
        ...

    def coordinator(self) -> Client:
        """Opens a client of this part's coordinator, which leads or is a standby."""
        ...

    def leader(self) -> Client:
        """Opens a client of the coordinator that leads."""
        ...

    def environment(self) -> Mapping[str, str]:
        """Returns the environment of the program, whose submissions go to this cluster."""
        ...

    def stop(self, *, is_done: bool) -> None:
        """Ends this part. is_done: the job or program of the cluster has ended, so the other parts end, too."""
        ...


_END_SECONDS = 30.0
"""How long the program has after SIGTERM."""


class Program:
    """The program of an application, a child of the attendant. It runs while its coordinator leads. Blocking."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """command: the file and its arguments."""
        self._command = command
        self._environment = environment
        self._child: subprocess.Popen[bytes] | None = None

    @property
    def has_started(self) -> bool:
        """Whether it runs, or has ended without a call of `end`."""
        return self._child is not None

    @property
    def exit_code(self) -> int | None:
        """Its exit code; None while it runs, and before it was started."""
        return None if self._child is None else self._child.poll()

    def start(self) -> None:
        """Starts it."""
        self._child = subprocess.Popen([sys.executable, *self._command], env=self._environment)

    def end(self) -> int | None:
        """Ends it if it runs; returns its exit code, None if it was not started. It may be started again."""
        child, self._child = self._child, None
        if child is None:
            return None
        MarkedProcess(child.pid, (), child).terminate(patience_seconds=_END_SECONDS)
        return child.wait()


RETRY_SECONDS = 1.0
TRIES_MAX = 600
"""Tries to submit, while coordinators start."""


def submitted(part: Part, request: SubmitRequest) -> str:
    """Submits the job and returns its id. The key of the request makes repeated submissions one.

    Raises UserError for a job that the coordinator refuses, ExternalError if none answers.
    """
    for tried in range(1, TRIES_MAX + 1):
        try:
            with part.leader() as client:
                return client.submit(request)
        except ExternalError:
            if tried == TRIES_MAX:
                raise
            time.sleep(RETRY_SECONDS)
    raise AssertionError  # the last try returns or raises


THE_JOB = "per-job"
"""Key of the only submission of a cluster that serves one job and may have several parts."""
LOOK_SECONDS = 1.0
LINGER_SECONDS = 3.0
"""How long a cluster lives after the end of its job, so that a command that waits for the job reads its end."""
_CANCEL_SECONDS = 30.0


class _View(NamedTuple):
    """leads: the coordinator of this part leads; exit_code: of the program, as the cluster has recorded it."""

    leads: bool
    exit_code: int | None


class Attendant:
    """Attends one part of a cluster. Blocking. linger_s: how long the part answers after the end of job or program."""

    def __init__(self, part: Part, *, linger_s: float = LINGER_SECONDS) -> None:
        self._part = part
        self._linger_s = linger_s
        self._asked_to_end = EndRequest()

    def ask_to_end(self) -> None:
        """Called by a signal handler: requests an orderly end."""
        self._asked_to_end.set()

    def job(self, job: str) -> str:
        """Waits until the job has ended, and each job that follows: an upgrade stops a job and submits the next one.

        Returns the state that the last of them was seen in; empty: in none.
        """
        state = ""
        try:
            following: str | None = job
            while following is not None:
                job, state = following, self._end_of(following)
                following = self._successor() if state in FINAL_STATES else None
            if state not in FINAL_STATES and not self._part.has_others:
                # otherwise the job goes on elsewhere
                self._cancel(job)
        finally:
            self._part.stop(is_done=state in FINAL_STATES)
        return state

    def _end_of(self, job: str) -> str:
        """Waits until the job has ended, or this attendant is asked to end. Returns the state that it was seen in last;
        empty: in none."""
        state = ""
        while state not in FINAL_STATES and not self._asked_to_end.wait(LOOK_SECONDS):
            state = self._state(job) or state
        return state

    def _successor(self) -> str | None:
        """Waits for a while, and returns a job that has not ended then; None: there is none."""
        self._asked_to_end.wait(self._linger_s)
        while True:
            self._part.keep_alive()
            try:
                with self._part.leader() as client:
                    # in this order: a hold ends when the job that it announced is there
                    is_held = client.cluster().held
                    found = [each.job_id for each in client.jobs() if each.state not in FINAL_STATES]
                if found or not is_held:
                    return next(iter(found), None)
            except ExternalError:
                # the coordinator is being restarted: the cluster must not end below a job that it cannot show
                pass
            if self._asked_to_end.wait(LOOK_SECONDS):
                return None

    def program(self, command: Sequence[str]) -> int:
        """Runs the program to its end, or sees it end beside another leader. Returns its exit code."""
        program = Program(command, self._part.environment())
        code: int | None = None
        try:
            code = self._attended(program)
            if code is not None:
                self._asked_to_end.wait(self._linger_s)
        finally:
            ended = program.end()
            self._part.stop(is_done=code is not None)
        # asked to end before the program had ended
        return (ended or 0) if code is None else code

    def application(self) -> int | None:
        """Waits until the program of the cluster has ended, which another attendant of this part runs. Returns its exit
        code; None: asked to end before."""
        code: int | None = None
        try:
            while code is None and not self._asked_to_end.wait(LOOK_SECONDS):
                view = self._view()
                code = None if view is None else view.exit_code
            if code is not None:
                self._asked_to_end.wait(self._linger_s)
        finally:
            self._part.stop(is_done=code is not None)
        return code

    def _attended(self, program: Program) -> int | None:
        """Runs the program wherever this part's coordinator leads; returns its exit code, None if asked to end."""
        while True:
            self._part.keep_alive()
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
            with suppress(ExternalError), self._part.leader() as client:
                client.end_application(code)

    def _view(self) -> _View | None:
        try:
            with self._part.coordinator() as client:
                # a standby answers this itself, and is sent on to the leader with the next request
                leads = client.health().status == "ok"
                return _View(leads, client.cluster().application_exit_code)
        except ExternalError:
            return None

    def _state(self, job: str) -> str | None:
        self._part.keep_alive()
        try:
            with self._part.leader() as client:
                return client.status(job).state
        except ExternalError:
            return None  # the coordinator is being restarted: the next poll shows the state

    def _cancel(self, job: str) -> None:
        try:
            with self._part.leader() as client:
                client.wait_trigger(client.cancel(job), timeout_s=_CANCEL_SECONDS)
        except HeadraceError as error:
            sys.stderr.write(f"job {job} could not be canceled: {error}\n")
