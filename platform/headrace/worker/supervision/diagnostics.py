"""The supervisor's answers to users who look at a worker from elsewhere: newest log lines, stacks, load.

The worker keeps its own lines in memory, because its output may go anywhere: to a file, a pod's log, a container's.
Lines of slots are read from the end of their logs. A slot writes its stacks to its log, too (`worker.slot.stacks`): the
text behind the end of the log is read back. All slots are asked at once; those that have not answered are asked once
more, in the way that needs no GIL.
"""

from __future__ import annotations

import faulthandler
import logging
import os
import signal
import tempfile
import time
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from headrace.rpc.messages import WorkerLoad
from headrace.worker.slot.stacks import STACK_BEGINS, STACKS_SIGNAL, STUCK_SIGNAL
from headrace.worker.supervision.slot_process import SlotProcess, SlotState

LINES_MAX = 500
LINE_CHARS_MAX = 4_000
SLOT_BYTES_MAX = 64 * 1024
"""Most text of one slot."""
_FORMAT = "%(asctime)s %(levelname)s %(message)s"


class RecentLines(logging.Handler):
    """The newest lines of this process's log, from `start` to `stop`."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter(_FORMAT))
        self._lines: deque[str] = deque(maxlen=LINES_MAX)

    def start(self) -> None:
        """Begins to receive what is logged, where logging is configured: elsewhere, as in `headrace run`, Python prints
        warnings itself as long as there is no handler."""
        if logging.getLogger().hasHandlers():
            logging.getLogger().addHandler(self)

    def stop(self) -> None:
        """Receives no more. Idempotent."""
        logging.getLogger().removeHandler(self)

    def emit(self, record: logging.LogRecord) -> None:
        """Called by `logging`, under the handler's lock."""
        self._lines.append(self.format(record)[:LINE_CHARS_MAX])

    @property
    def text(self) -> str:
        """The lines."""
        with self.lock:  # type: ignore[union-attr] # typed as of a handler without a lock
            return "".join(f"{line}\n" for line in self._lines)


def all_logs(own: RecentLines, slots: Iterable[SlotProcess]) -> str:
    """The newest lines of this process, then those of its slots. Blocking."""
    parts = [f"== worker, pid {os.getpid()}\n{own.text}"]
    parts += [f"== slot {slot.name}, pid {slot.pid}\n{_end_of(slot.log.path)}" for slot in slots]
    return "\n".join(parts)


def _end_of(log: Path) -> str:
    try:
        with log.open("rb") as file:
            begin = max(0, os.fstat(file.fileno()).st_size - SLOT_BYTES_MAX)
            file.seek(begin)
            data = file.read(SLOT_BYTES_MAX)
    except OSError as error:
        return f"its log cannot be read: {error.strerror}\n"
    # the first line may have lost its beginning
    return (data.partition(b"\n")[2] if begin else data).decode(errors="replace")


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


_TICKS_A_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_FIELDS_BEFORE_TIMES = 11
"""Fields of /proc/PID/stat between the command's name, which may hold spaces, and the process's user time."""


class LoadMeter:
    """Measures processes by /proc. A process that begins or ends between two measurements counts from the second one,
    or up to the first one."""

    def __init__(self, now_s: float) -> None:
        self._measured_s = now_s
        self._ticks: dict[int, int] = {}

    def measure(self, pids: Iterable[int], now_s: float) -> WorkerLoad:
        """The load of these processes since the call before."""
        seen = {pid: _usage(pid) for pid in pids}
        found = {pid: each for pid, each in seen.items() if each is not None}
        spent = sum(ticks - self._ticks.get(pid, ticks) for pid, (ticks, _) in found.items())
        past_s = now_s - self._measured_s
        self._measured_s, self._ticks = now_s, {pid: ticks for pid, (ticks, _) in found.items()}
        millicores = round(1_000 * spent / _TICKS_A_SECOND / past_s) if past_s > 0 else 0
        return WorkerLoad(millicores, sum(memory for _, memory in found.values()))


def _usage(pid: int) -> tuple[int, int] | None:
    """(CPU time in ticks, resident bytes) of a process; None: it has ended, or the system has no /proc."""
    try:
        times = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[_FIELDS_BEFORE_TIMES:]
        pages = Path(f"/proc/{pid}/statm").read_text().split()[1]
        return int(times[0]) + int(times[1]), int(pages) * _PAGE_BYTES
    except (OSError, IndexError, ValueError):
        return None
