"""CPU times of processes, read from /proc (Linux)."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


@dataclass(frozen=True, slots=True)
class ProcessTimes:
    """One process. own_s: user and system CPU seconds; reaped_s: the same of its ended and reaped descendants."""

    parent: int
    own_s: float
    reaped_s: float


def process_times() -> dict[int, ProcessTimes]:
    """Returns every process of this host by pid, zombies included."""
    times: dict[int, ProcessTimes] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                # the name before the last bracket may hold blanks
                fields = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it ended meanwhile
            own, reaped = sum(map(int, fields[11:13])), sum(map(int, fields[13:15]))
            times[int(entry.name)] = ProcessTimes(int(fields[1]), own / TICKS_PER_S, reaped / TICKS_PER_S)
    return times


def descendants(root: int, times: Mapping[int, ProcessTimes]) -> set[int]:
    """Returns the pids below `root`, without `root`."""
    tree = {root}
    while grown := {pid for pid, process in times.items() if process.parent in tree and pid not in tree}:
        tree |= grown
    return tree - {root}
