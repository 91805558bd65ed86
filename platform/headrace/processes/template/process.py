"""The template: a process that has imported everything and run nothing, and forks children on request (a fork server).

    owner ──"prepare"──> template imports its programs ──"ready"──> owner
    owner ──order, descriptors──> template ── fork ──> middle ── fork ──> child
      │ <──────────pid──────────────┤                    └─ exits: the child's parent is now the owner, which has made
      │                             └─ "go" once the middle has been reaped      itself a subreaper
      └── signals, exit code ── child: resets what it inherited, then runs its program

* The child belongs to the owner, not to the template: it survives the template, and its exit code goes to the owner.
* The child waits for "go". Before that its parent is the middle process, whose exit would kill a child that has set a
  parent-death signal.
* The template has one thread and holds no library lock that a child could inherit locked. It opens no socket but its
  own, runs no polars query, and loads no third-party connector, because one that starts a thread on import would break
  that. A library's own threads (polars' cleaner) do not exist in a child.

The template exits with its owner, whose end closes the socket.

A reset child equals a fresh interpreter, except for the imports: descriptors, session, signals, environment, time zone,
standard streams, faulthandler, import path, command line, temporary folder, logging, random numbers and garbage
collection. Umask and working directory are the owner's, as in a fresh interpreter.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import faulthandler
import gc
import importlib
import io
import logging
import os
import random
import signal
import socket
import struct
import sys
import tempfile
import time
import traceback
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from headrace.processes.forking import double_fork
from headrace.processes.garbage_collection import collect_as_usual, defer_first_collection
from headrace.processes.installation import import_path, set_import_path
from headrace.processes.order import ProcessOrder, place_descriptors, receive_order
from headrace.processes.template.title import set_command_line

_IGNORED = {signal.SIGPIPE, signal.SIGXFSZ}
"""Signals that Python ignores from its start."""


def reset(order: ProcessOrder, kept: Sequence[int], *, path: Sequence[str], shown: Sequence[str] | None = None) -> None:
    """Resets this process.

    kept    the received descriptors that become those in `order.keep`
    path    for imports
    shown   the command line in lists of processes; None: as `SpawnStarter` would start it
    """
    # a session of its own: Ctrl-C in the owner's terminal must not reach it
    os.setsid()
    _reset_signals()
    place_descriptors(order, kept)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    _reset_streams()
    set_import_path(path)
    sys.argv = [order.program, *order.arguments]
    command = [sys.executable, "-P", "-X", "faulthandler", "-m", *sys.argv]
    set_command_line(command if shown is None else shown, order.environment, order.role)
    # cached by the template from its own TMPDIR
    tempfile.tempdir = None
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    # each child inherits the template's generator: without a new seed all children draw the same numbers
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    gc.enable()
    collect_as_usual()


def _reset_streams() -> None:
    """Opens standard streams over descriptors 0 to 2, unbuffered, because the process may be killed at any moment."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115 - open for the process's life
    sys.stdout = _writing(1, "strict")
    sys.stderr = _writing(2, "backslashreplace")
    faulthandler.enable(sys.stderr)


def _writing(descriptor: int, errors: str) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=True)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    kept = {signal.SIGKILL, signal.SIGSTOP, signal.SIGINT, *_IGNORED}
    for number in signal.valid_signals() - kept:
        # the C library reserves some signals
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


PROGRAM, ROLE = "headrace.processes.template.process", "headrace-template"
PREPARE, READY = b"p", b"\x01"
"""The owner's message before the first order, and the answer."""
PID = struct.Struct(">i")
"""The answer to an order: the child's pid, or minus the error number of the fork."""
PREPARED_ENVIRONMENT = {
    # set before polars and numpy load: neither may start threads
    "POLARS_MAX_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # jemalloc's threads, which return memory to the system, do not survive a fork. `memory_decay` replaces them; it
    # needs one arena, which receives the frees of every thread.
    "_RJEM_MALLOC_CONF": "background_thread:false,narenas:1,dirty_decay_ms:500,muzzy_decay_ms:0",
}
OWNER_GONE, PROGRAM_FAILED = 71, 1
_PR_SET_PDEATHSIG = 1


def preload(programs: Sequence[str]) -> None:
    """Imports the programs' modules, with memory and threads set up for forks if polars is not loaded yet."""
    before = {name: os.environ.get(name) for name in PREPARED_ENVIRONMENT}
    # overwrites existing values: polars leaves a jemalloc setting in the environment of its child processes
    os.environ.update(PREPARED_ENVIRONMENT)
    try:
        for program in programs:
            importlib.import_module(program).preload()
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def serve(connection: socket.socket, owner: int, programs: Sequence[str]) -> NoReturn:
    """Imports the programs when the owner asks for it, then forks a child for each order until the owner is gone."""
    try:
        if connection.recv(len(PREPARE)):
            defer_first_collection()
            preload(programs)
            # a collection in a child would write to every page that it shares
            gc.freeze()
            connection.sendall(READY)
            _Server(connection, owner).run()
    except OSError:
        pass  # the owner died in the middle of a message
    except BaseException:  # the shell of the process: its log has the error, and the owner starts another template
        traceback.print_exc()
        os._exit(PROGRAM_FAILED)
    os._exit(0)


def die_with_parent(parent: int, code: int = OWNER_GONE, *, by: signal.Signals = signal.SIGKILL) -> None:
    """Makes Linux send this process a signal when its parent dies; exits if the parent is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, by)
    # the parent may have died before prctl took effect: then no signal comes
    if os.getppid() != parent:
        os._exit(code)


class _Server:
    """Accepts one order after the other. owner: the process that adopts the children."""

    def __init__(self, connection: socket.socket, owner: int) -> None:
        self._connection = connection
        self._owner = owner
        self._path = import_path()

    def run(self) -> None:
        """Returns when the owner is gone. Raises OSError if it dies in the middle of a message."""
        while (received := receive_order(self._connection)) is not None:
            order, kept = received
            answer = self._fork(order, kept)
            for descriptor in (order.stdout, order.stderr, *kept):
                os.close(descriptor)
            self._connection.sendall(PID.pack(answer))

    def _fork(self, order: ProcessOrder, kept: Sequence[int]) -> int:
        """Forks a child that the owner adopts. Returns its pid, or minus an error number."""
        try:
            go, say_go = os.pipe()
        except OSError as error:
            return _refusal(error)
        try:
            pid = double_fork(lambda: self._run_child(order, kept, go=go, say_go=say_go))
            # the middle is reaped, so Linux has reparented the child to the owner
            os.write(say_go, b"g")
        except OSError as error:
            return _refusal(error)
        else:
            return pid
        finally:
            os.close(go)
            os.close(say_go)

    def _run_child(self, order: ProcessOrder, kept: Sequence[int], *, go: int, say_go: int) -> NoReturn:
        try:
            os.close(say_go)
            # if the template dies before "go", the owner may not know this child: it exits
            if not os.read(go, 1) or os.getppid() != self._owner:
                os._exit(OWNER_GONE)
            self._connection.detach()
            reset(order, kept, path=self._path)
            main = importlib.import_module(order.program)
            sys.modules["__main__"] = main
            main.main(list(order.arguments))
        except SystemExit as request:
            os._exit(request.code if isinstance(request.code, int) else PROGRAM_FAILED)
        except BaseException:  # the shell of the process: its log has the error
            traceback.print_exc()
            os._exit(PROGRAM_FAILED)
        os._exit(0)


def _refusal(error: OSError) -> int:
    """The answer to an order that cannot be carried out: minus the error number."""
    return -(error.errno or errno.EAGAIN)


def main(arguments: list[str]) -> NoReturn:
    """A template that was started as a fresh interpreter."""
    parser = argparse.ArgumentParser(prog=PROGRAM)
    parser.add_argument("role", choices=[ROLE])
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--owner", type=int, required=True)
    parser.add_argument("--program", action="append", required=True)
    given = parser.parse_args(arguments)
    os.set_inheritable(given.fd, False)  # noqa: FBT003 - its only form
    serve(socket.socket(fileno=given.fd), given.owner, given.program)


if __name__ == "__main__":
    main(sys.argv[1:])
