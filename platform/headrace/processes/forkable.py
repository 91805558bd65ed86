"""Whether a fork of this process is as good as a fresh interpreter."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

LIBRARY_THREADS = {"jemalloc_bg_thd", "polars-ooc-clea"}
"""Threads that libraries start when they are imported; they hold no lock while they wait for work."""


def has_one_thread() -> bool:
    """Whether there is no other thread at all: no library runs here that would miss its own in a fork."""
    return len(_others()) == 0


def has_no_threads_at_work() -> bool:
    """Whether no thread of this process, of whatever library, could hold a lock that a fork would find locked."""
    return all((task / "comm").read_text().strip() in LIBRARY_THREADS for task in _others())


def _others() -> list[Path]:
    return [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]


def variables_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """The variables that take effect only while an interpreter starts: a fork has those of who forked it."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(("PYTHON", "LD_")) and name != "PYTHONUNBUFFERED"
    }
