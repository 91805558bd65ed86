"""What a forked child resets of its template's: after this it is as a fresh interpreter, but for the imports.

Descriptors, session, signals, environment, time zone, standard streams, faulthandler, import path, command line,
temporary folder, logging and random numbers. Umask and working directory are the owner's, as in a fresh interpreter.
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

from headrace.processes.installation import set_import_path
from headrace.processes.order import ProcessOrder, place_descriptors
from headrace.processes.title import set_command_line

_IGNORED = {signal.SIGPIPE, signal.SIGXFSZ}
"""Signals that Python ignores from its start."""


def reset(order: ProcessOrder, kept: Sequence[int], *, path: Sequence[str], shown: Sequence[str] | None = None) -> None:
    """Resets this process.

    kept   the received descriptors that become those in `order.keep`
    path   for imports
    shown  the command line in lists of processes; None: as `SpawnStarter` would start it
    """
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
    tempfile.tempdir = None
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    random.seed()
    if "numpy" in sys.modules:
        sys.modules["numpy"].random.seed()
    gc.enable()


def _reset_streams() -> None:
    """Standard streams over descriptors 0 to 2, unbuffered: the process may be killed at any moment."""
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
        # the C library keeps some for itself
        with suppress(OSError, ValueError):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
