"""Resets what a forked child inherits from its template: after this it equals a fresh interpreter, except for the
imports.

Descriptors, session, signals, environment, time zone, standard streams, faulthandler, import path, command line,
temporary folder, logging, random numbers and garbage collection. Umask and working directory are the owner's, as in a
fresh interpreter.
"""

from __future__ import annotations

import faulthandler
import gc
import io
import logging
import os
import random
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress

from headrace.processes.garbage_collection import collect_as_usual
from headrace.processes.installation import set_import_path
from headrace.processes.order import ProcessOrder, place_descriptors
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
