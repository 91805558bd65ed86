"""Checks whether a fork of this process equals a fresh interpreter."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

LIBRARY_THREADS = {"jemalloc_bg_thd", "polars-ooc-clea"}
"""Threads that libraries start when they are imported; they hold no lock while they wait for work."""


def has_one_thread() -> bool:
    """Whether this process has no other thread, so no library would miss its own in a fork."""
    return len(_others()) == 0


def has_no_threads_at_work() -> bool:
    """Whether no thread of any library could hold a lock, which a fork would find locked forever."""
    return all((task / "comm").read_text().strip() in LIBRARY_THREADS for task in _others())


def _others() -> list[Path]:
    return [task for task in Path("/proc/self/task").iterdir() if task.name != str(os.getpid())]


def variables_at_start(environment: Mapping[str, str]) -> dict[str, str]:
    """Returns the variables that only take effect while an interpreter starts: a fork keeps those of its parent."""
    return {
        name: value
        for name, value in environment.items()
        if name.startswith(("PYTHON", "LD_")) and name != "PYTHONUNBUFFERED"
    }
