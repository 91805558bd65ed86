"""Signals that end a command in the foreground: Ctrl-C, SIGTERM of a supervisor, SIGHUP of a closed terminal.

A signal that the parent process ignored (`nohup`, a shell's background jobs) stays ignored.
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
    """Inside, signals end the process at once, with this text on stderr: a command has nothing to end before it runs
    its job. Restores the former handlers, because tests call commands in processes that live on.
    """

    def leave(number: int, _frame: object) -> None:
        write_line(text)
        os._exit(128 + number)

    before = {number: signal.getsignal(number) for number in ENDING}
    _install(leave)
    try:
        yield
    finally:
        for number, handler in before.items():
            if handler is not None:  # None: a handler that C installed, which Python cannot restore
                signal.signal(number, handler)


@contextmanager
def handled(on_signal: Callable[[int], None]) -> Iterator[None]:
    """Inside, `on_signal` is called for each signal, in the main thread between two instructions; afterwards signals
    kill, until the command ends. To be used in `leaving_at_once`.
    """

    def handle(number: int, _frame: object) -> None:
        on_signal(number)

    _install(handle)
    try:
        yield
    finally:
        _install(signal.SIG_DFL)


def let_go_of_terminal() -> None:
    """After SIGHUP: redirects output to /dev/null, because writes to a closed terminal fail."""
    null = os.open(os.devnull, os.O_RDWR)
    for number in (1, 2):
        if stat.S_ISCHR(os.fstat(number).st_mode):
            os.dup2(null, number)
    os.close(null)


def write_line(text: str) -> None:
    """Writes to stderr from a handler: bypasses buffers and locks. A closed terminal is no error."""
    with suppress(OSError):
        os.write(2, f"\n{text}\n".encode())


def _install(handler: Callable[[int, object], None] | signal.Handlers) -> None:
    for number in ENDING:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, handler)
