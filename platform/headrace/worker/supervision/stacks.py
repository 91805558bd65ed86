"""The stacks of all threads of a worker and its slots, for users who want to know what a slow process does.

A slot writes its stacks to its log (`worker.slot.stacks`). Here the text behind the end of the log is read back. All
slots are asked at once; those that have not answered are asked once more, in the way that needs no GIL.
"""

from __future__ import annotations

import faulthandler
import os
import signal
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress

from headrace.worker.slot.stacks import STACK_BEGINS, STACKS_SIGNAL, STUCK_SIGNAL
from headrace.worker.supervision.slot_process import SlotProcess, SlotState

PROCESS_BYTES_MAX = 64 * 1024
"""Most text of one process."""
_ASKED: tuple[tuple[signal.Signals, float], ...] = ((STACKS_SIGNAL, 4.0), (STUCK_SIGNAL, 2.0))
"""The signals in their order, and how long slots may take after each (s). One that is suspended writes nothing."""
_LOOK_SECONDS = 0.05


def all_stacks(slots: Iterable[SlotProcess]) -> str:
    """Returns the stacks of this process, then those of its slots that are up. Blocks for six seconds at most."""
    # a slot that starts has no handler yet: the signal would end it
    dumps = [_Dump(slot) for slot in slots if slot.state is not SlotState.STARTING]
    waiting = dumps
    for number, seconds in _ASKED:
        for dump in waiting:
            dump.ask(number)
        deadline_s = time.monotonic() + seconds
        while waiting and time.monotonic() < deadline_s:
            time.sleep(_LOOK_SECONDS)
            waiting = [dump for dump in waiting if not dump.look()]
    own = f"== supervisor, pid {os.getpid()}\n{_own()}"
    return "\n".join([own, *(f"== slot {dump.slot.name}, pid {dump.slot.pid}\n{dump.text()}" for dump in dumps)])


def _own() -> str:
    with tempfile.TemporaryFile() as file:
        # the caller has the GIL, so no other thread changes its frames
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read(PROCESS_BYTES_MAX).decode(errors="replace")


class _Dump:
    """What one slot has written to its log since it was asked."""

    def __init__(self, slot: SlotProcess) -> None:
        self.slot = slot
        self._ended = False
        self._begin = self._size()
        self._written = b""

    def ask(self, number: signal.Signals) -> None:
        try:
            os.kill(self.slot.pid, number)
        except OSError:
            self._ended = True

    def look(self) -> bool:
        """Reads what was written. Returns whether it is whole: it has stacks, and has not grown since the last look."""
        before, self._written = self._written, self._read()
        return self._ended or (self._written == before and STACK_BEGINS.encode() in before)

    def text(self) -> str:
        text = self._written.decode(errors="replace")
        if STACK_BEGINS in text:
            return text
        return "it has just ended\n" if self._ended else f"{text}it did not answer: it may be suspended\n"

    def _size(self) -> int:
        with suppress(OSError):
            return self.slot.log.path.stat().st_size
        return 0

    def _read(self) -> bytes:
        # the log disappears with its slot if it is empty
        with suppress(OSError), self.slot.log.path.open("rb") as log:
            # a log that was truncated meanwhile is read from its beginning
            log.seek(min(self._begin, self._size()))
            return log.read(PROCESS_BYTES_MAX)
        return b""
