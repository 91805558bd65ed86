"""The template: a process in which everything is imported and nothing has run, and which forks children on request.

    owner ──order, descriptors──> template ── fork ──> middle ── fork ──> child
      │ <──────────pid──────────────┤                    └─ exits: the child's parent is now the owner, which has made
      │                             └─ "go" once the middle has been reaped      itself a subreaper
      └── signals, exit code ── child: resets what it inherited, then runs its program

* The child is the owner's, not the template's: it survives the template, and its exit code goes to the owner.
* The child waits for "go". Before that its parent is the middle, whose end would kill a child that has asked for a parent-death signal.
* The template has one thread and holds no lock of a library that a child could find locked: it opens no socket but its
  own, runs no polars query, and loads no connector of a third party, for one that starts a thread when it is imported
  would spoil it. A library's own threads (polars' cleaner) do not exist in a child.

It ends with its owner, whose end closes its socket.
"""

from __future__ import annotations

import argparse
import ctypes
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
import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import NoReturn

from headrace.processes.installation import import_path
from headrace.processes.order import ProcessOrder, place_descriptors, receive_order
from headrace.processes.title import set_command_line

PROGRAM, ROLE = "headrace.processes.template", "headrace-template"
READY = b"\x01"
PID = struct.Struct(">i")
"""The answer to an order: the child's pid, or minus the error number of the fork."""
PREPARED_ENVIRONMENT = {
    # before polars and numpy load: neither may start threads
    "POLARS_MAX_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    # jemalloc's threads, which return memory to the system, do not survive a fork; `memory_decay` stands in for them,
    # which takes one arena that every thread's frees go to
    "_RJEM_MALLOC_CONF": "background_thread:false,narenas:1,dirty_decay_ms:500,muzzy_decay_ms:0",
}
OWNER_GONE, PROGRAM_FAILED = 71, 1
_PR_SET_PDEATHSIG = 1


def preload(programs: Sequence[str]) -> None:
    """Imports what the programs need, with memory and threads set up for forks where polars is not loaded yet."""
    before = {name: os.environ.get(name) for name in PREPARED_ENVIRONMENT}
    os.environ.update({name: value for name, value in PREPARED_ENVIRONMENT.items() if before[name] is None})
    try:
        for program in programs:
            importlib.import_module(program).preload()
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]


def serve(connection: socket.socket, owner: int) -> NoReturn:
    """Forks a child for each order until the owner is gone. `preload` has been called; no thread of ours runs."""
    path = import_path()
    # collections would write to every page that children share
    gc.collect()
    gc.freeze()
    try:
        connection.sendall(READY)
        while (received := receive_order(connection)) is not None:
            order, kept = received
            answer = _fork(connection, order, kept, owner=owner, path=path)
            for descriptor in (order.stdout, order.stderr, *kept):
                os.close(descriptor)
            connection.sendall(PID.pack(answer))
    except OSError:
        pass  # the owner is gone in the middle of a word
    except BaseException:  # the shell of the process: its log has it, and the owner starts another one
        traceback.print_exc()
        os._exit(PROGRAM_FAILED)
    os._exit(0)


def die_with_parent(parent: int, code: int = OWNER_GONE) -> None:
    """Asks Linux to kill this process with its parent; exits if the parent is gone already."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(code)


def _fork(
    connection: socket.socket, order: ProcessOrder, kept: Sequence[int], *, owner: int, path: Sequence[str]
) -> int:
    """Forks a child that the owner adopts. Returns its pid, or minus an error number."""
    go, say_go = os.pipe()
    pid_in, pid_out = os.pipe()
    try:
        middle = quiet_fork()
        if middle == 0:
            _run_middle(connection, order, kept, owner=owner, path=path, go=go, pid_out=pid_out)
        os.close(pid_out)
        pid_out = -1
        answer = os.read(pid_in, PID.size)
        # once the middle is reaped, the kernel has given the child to the owner
        os.waitpid(middle, 0)
        if len(answer) < PID.size:
            return -1
        os.write(say_go, b"g")
        return int(PID.unpack(answer)[0])
    except OSError as error:
        return -(error.errno or 1)
    finally:
        for descriptor in (go, say_go, pid_in, pid_out):
            if descriptor >= 0:
                os.close(descriptor)


def quiet_fork() -> int:
    """`os.fork`, without Python's warning of threads."""
    with warnings.catch_warnings():
        # Python 3.12 warns of any thread; the template's module says which are there and why that is safe
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _run_middle(  # noqa: PLR0913 - the template's state, passed on once
    connection: socket.socket,
    order: ProcessOrder,
    kept: Sequence[int],
    *,
    owner: int,
    path: Sequence[str],
    go: int,
    pid_out: int,
) -> NoReturn:
    """Forks the child, reports its pid and exits, so that the child is orphaned to the owner."""
    try:
        child = quiet_fork()
    except OSError as error:
        child = -(error.errno or 1)
    if child == 0:
        _run_child(connection, order, kept, owner=owner, path=path, go=go)
    with suppress(OSError):
        os.write(pid_out, PID.pack(child))
    os._exit(0)


def _run_child(
    connection: socket.socket, order: ProcessOrder, kept: Sequence[int], *, owner: int, path: Sequence[str], go: int
) -> NoReturn:
    try:
        # nothing is read where the template dies meanwhile: whether the owner knows this child is open, so it ends
        if not os.read(go, 1):
            os._exit(OWNER_GONE)
        _reset(connection, order, kept, path)
        if not _adopted(owner):
            os._exit(OWNER_GONE)
        main = importlib.import_module(order.program)
        sys.modules["__main__"] = main
        main.main(list(order.arguments))
    except SystemExit as request:
        os._exit(request.code if isinstance(request.code, int) else PROGRAM_FAILED)
    except BaseException:  # the shell of the process: its log has it
        traceback.print_exc()
        os._exit(PROGRAM_FAILED)
    os._exit(0)


def _adopted(owner: int) -> bool:
    """Whether the owner is this process's parent. The kernel changes parents before the middle can be reaped."""
    return os.getppid() == owner


def _reset(connection: socket.socket, order: ProcessOrder, kept: Sequence[int], path: Sequence[str]) -> None:
    """Makes this process what a fresh interpreter would be, but for the imports."""
    connection.detach()
    os.setsid()
    _reset_signals()
    place_descriptors(order, kept)
    os.environ.clear()
    os.environ.update(order.environment)
    time.tzset()
    _reset_streams()
    sys.path[:] = path
    command = [sys.executable, "-P", "-X", "faulthandler", "-m", order.program, *order.arguments]
    sys.argv = [order.program, *order.arguments]
    set_command_line(command, order.environment, order.role)
    tempfile.tempdir = None
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    gc.enable()


def _reset_streams() -> None:
    """Standard streams over descriptors 0 to 2, unbuffered: the process may be killed at any moment."""
    sys.stdin = open(0, encoding="utf-8", closefd=False)  # noqa: SIM115, PTH123 - a descriptor
    sys.stdout = _writing(1, "strict")
    sys.stderr = _writing(2, "backslashreplace")
    sys.__stdin__, sys.__stdout__, sys.__stderr__ = sys.stdin, sys.stdout, sys.stderr
    faulthandler.enable(sys.stderr)


def _writing(descriptor: int, errors: str) -> io.TextIOWrapper:
    raw = io.FileIO(descriptor, "w", closefd=False)
    return io.TextIOWrapper(raw, encoding="utf-8", errors=errors, write_through=True)


def _reset_signals() -> None:
    signal.set_wakeup_fd(-1)
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    ignored = {signal.SIGPIPE, signal.SIGXFSZ}
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGINT} - ignored:
        with suppress(OSError, ValueError):
            if signal.getsignal(number) is not signal.SIG_DFL:
                signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)


def main(arguments: list[str]) -> NoReturn:
    """A template that was started as a fresh interpreter."""
    parser = argparse.ArgumentParser(prog=PROGRAM)
    parser.add_argument("role", choices=[ROLE])
    parser.add_argument("--fd", type=int, required=True)
    parser.add_argument("--owner", type=int, required=True)
    parser.add_argument("--program", action="append", required=True)
    given = parser.parse_args(arguments)
    os.set_inheritable(given.fd, False)  # noqa: FBT003 - its only form
    preload(given.program)
    serve(socket.socket(fileno=given.fd), given.owner)


if __name__ == "__main__":
    main(sys.argv[1:])
