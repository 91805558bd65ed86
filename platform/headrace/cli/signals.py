"""Signals that end a command in the foreground: Ctrl-C, SIGTERM of a supervisor, SIGHUP of a terminal that is gone.

What whoever started the process has it ignore (`nohup`, a shell's background jobs) stays ignored.
"""

from __future__ import annotations

import os
import signal
import stat
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def leaving_at_once(text: str) -> Iterator[None]:
    """Inside, they end the process where it is, with this on stderr: for a command, which until it runs its job has
    nothing to end. Restores what was there: tests call commands in processes that live on."""

    def leave(number: int, _frame: object) -> None:
        write_line(text)
        os._exit(128 + number)

    before = {number: signal.getsignal(number) for number in ENDING}
    _install(leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # one that C has installed cannot be named here
                signal.signal(number, handler)


@contextmanager
def handled(on_signal: Callable[[int], None]) -> Iterator[None]:
    """Inside, `on_signal` is called for each, in the main thread between two instructions; afterwards they kill, until
    the command ends. To be used in `leaving_at_once`."""

    def handle(number: int, _frame: object) -> None:
        on_signal(number)

    _install(handle)
    try:
        yield
    finally:
        _install(signal.SIG_DFL)


def let_go_of_terminal() -> None:
    """After SIGHUP: what is written to a terminal that is gone fails, and there is nobody to read it."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        if stat.S_ISCHR(os.fstat(number).st_mode):
            os.dup2(null, number)
    os.close(null)


def write_line(text: str) -> None:
    """To stderr, from a handler: past all buffers and locks. A terminal that is gone is no error."""
    with suppress(OSError):
        os.write(2, f"\n{text}\n".encode())


def _install(handler: Callable[[int, object], None] | signal.Handlers) -> None:
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
