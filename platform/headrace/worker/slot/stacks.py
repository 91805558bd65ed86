"""The stacks of a slot's threads, which the slot writes to its log at a signal.

    STACKS_SIGNAL   A thread of the slot writes them. It reads frames under the GIL, so the slot goes on unharmed.
    STUCK_SIGNAL    faulthandler writes them in the signal's handler, without the GIL. It works while native code holds
                    the GIL. A thread that runs Python code meanwhile changes the frames that are read, which can end
                    the process: this signal is for a slot that has not answered the first one.

Python runs its own handlers in the main thread, once that thread runs Python code. The slot's main thread waits, and a
signal that arrives just before it waits is handled late. The handler in C, however, writes the signal's number to the
wakeup descriptor at once (`signal.set_wakeup_fd`), where the thread `slot-stacks` reads it.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import traceback
from contextlib import suppress
from itertools import islice
from types import FrameType

STACKS_SIGNAL = signal.SIGUSR1
STUCK_SIGNAL = signal.SIGUSR2
STACK_BEGINS = "(most recent call first):"
"""In the first line of each stack, whichever signal wrote it."""
_FRAMES_MAX = 100
"""Frames of one thread that are written, the innermost first. faulthandler has the same limit."""


def write_stacks_at_signals(log_fd: int) -> None:
    """Handles both signals from now on: stacks are written to `log_fd`. To be called in the main thread."""
    signals, wakeup = os.pipe()
    # a full pipe loses no dump: the signals in it were not handled yet
    os.set_blocking(wakeup, False)
    signal.set_wakeup_fd(wakeup, warn_on_full_buffer=False)
    signal.signal(STACKS_SIGNAL, _noted_by_wakeup)
    faulthandler.register(STUCK_SIGNAL, log_fd)
    for number in (STACKS_SIGNAL, STUCK_SIGNAL):
        # system calls of native libraries continue
        signal.siginterrupt(number, False)  # noqa: FBT003 - its only form
    threading.Thread(target=_write, args=(signals, log_fd), name="slot-stacks", daemon=True).start()


def _noted_by_wakeup(_number: int, _frame: FrameType | None) -> None:
    """The handler. Without one in Python, Python does not write to the wakeup descriptor."""


def _write(signals: int, log_fd: int) -> None:
    while True:
        # other signals with a handler in Python, SIGINT for one, arrive here too
        if STACKS_SIGNAL in os.read(signals, 4096):
            # a full disk must not end this thread: the next dump may succeed
            with suppress(OSError):
                os.write(log_fd, stacks().encode(errors="backslashreplace"))


def stacks() -> str:
    """Returns the stacks of all threads that run Python code, in the form of faulthandler, with the threads' names."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    return "\n".join(
        _stack(ident, names.get(ident, "unknown"), frame) for ident, frame in sys._current_frames().items()
    )


def _stack(ident: int, name: str, frame: FrameType) -> str:
    frames = islice(traceback.walk_stack(frame), _FRAMES_MAX)
    lines = [f'  File "{each.f_code.co_filename}", line {line} in {each.f_code.co_name}\n' for each, line in frames]
    return f"Thread 0x{ident:016x} [{name}] {STACK_BEGINS}\n{''.join(lines)}"
