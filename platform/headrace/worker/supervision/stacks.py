"""The stacks of all threads of a worker and its slots, for users who want to know what a slow process does.

A slot writes its stacks to its log when it receives `STACKS_SIGNAL`: faulthandler does that in C, also while user code
holds the GIL. Here the text behind the end of the log is read back.
"""

from __future__ import annotations

import faulthandler
import os
import tempfile
import time
from collections.abc import Iterable
from contextlib import suppress

from headrace.worker.slot.main import STACKS_SIGNAL
from headrace.worker.supervision.slot_process import SlotProcess, SlotState

PROCESS_BYTES_MAX = 64 * 1024
"""Most text of one process."""
WRITE_SECONDS_MAX = 2.0
"""How long a slot may take: one that is suspended writes nothing."""
_LOOK_SECONDS = 0.05


def all_stacks(slots: Iterable[SlotProcess]) -> str:
    """The stacks of this process, then those of its slots that are up. Blocking."""
    parts = [f"== supervisor, pid {os.getpid()}\n{_own()}"]
    # a slot that starts has no handler yet: the signal would end it
    up = [slot for slot in slots if slot.state is not SlotState.STARTING]
    parts += [f"== slot {slot.name}, pid {slot.pid}\n{_of_slot(slot)}" for slot in up]
    return "\n".join(parts)


def _own() -> str:
    with tempfile.TemporaryFile() as file:
        faulthandler.dump_traceback(file, all_threads=True)
        file.seek(0)
        return file.read(PROCESS_BYTES_MAX).decode(errors="replace")


def _of_slot(slot: SlotProcess) -> str:
    try:
        begin = slot.log.path.stat().st_size
        os.kill(slot.pid, STACKS_SIGNAL)
    except OSError:
        return "it has just ended\n"
    deadline_s, seen = time.monotonic() + WRITE_SECONDS_MAX, begin
    while time.monotonic() < deadline_s:
        time.sleep(_LOOK_SECONDS)
        with suppress(OSError):
            size = slot.log.path.stat().st_size
            if size == seen > begin:
                break
            seen = size
    with suppress(OSError), slot.log.path.open("rb") as log:
        # a log that was truncated meanwhile is read from its beginning
        log.seek(min(begin, seen))
        return log.read(PROCESS_BYTES_MAX).decode(errors="replace") or "it did not answer: it may be suspended\n"
    return "its log cannot be read\n"
