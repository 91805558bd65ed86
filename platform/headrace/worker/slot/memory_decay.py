"""Returns memory that polars has freed to the system, in a process that was forked.

polars allocates with jemalloc, whose background threads return freed pages after half a second. A fork does not copy
those threads. Without them jemalloc returns pages only when it is called, so a forked slot whose windows have closed
keeps their memory until rows come (measured: 222 MiB at a peak, 173 after it; 76 in a fresh interpreter, 62 with this).

The template sets one arena for all threads (`processes.template.process`), so the calls of any thread count. jemalloc
checks for decayed pages after a number of calls; twice as many calls cost 5 ms of CPU. They are made only while the
process uses memory.
"""

from __future__ import annotations

import os
import threading
import time
from functools import partial
from pathlib import Path

import polars as pl
import pyarrow as pa

EVERY_SECONDS = 5.0
GROWN_BYTES_MIN = 16 << 20
"""A process that uses no more than this above its start has nothing to return."""
_CALLS = 2_000
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


def start_memory_decay() -> None:
    """Starts a thread that returns freed memory for as long as the process lives."""
    # read here: the process may have grown by the time that the thread runs
    run = partial(_run, resident_bytes())
    threading.Thread(target=run, name="memory-decay", daemon=True).start()


def return_freed_memory() -> None:
    """Makes the allocators of polars and Arrow return pages that have been free for half a second."""
    pl.DataFrame({"group": range(_CALLS)}).partition_by("group")
    pa.default_memory_pool().release_unused()


def resident_bytes() -> int:
    """Resident memory of this process; 0 on a system without /proc."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


def _run(start_bytes: int) -> None:
    while True:
        time.sleep(EVERY_SECONDS)
        if resident_bytes() - start_bytes > GROWN_BYTES_MIN:
            return_freed_memory()
