"""What a worker uses: CPU time and memory of its process and of its slots. Shown to users only."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from headrace.rpc.messages import WorkerLoad

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
