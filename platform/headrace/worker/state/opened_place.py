"""Opens the place of a slot's state: its budget, and its local files where the pipeline wants them."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

from headrace.core.settings import SLOTS_VARIABLE
from headrace.state.place import MEMORY, Budget, Made, StatePlace, StateTerms
from headrace.worker.state.local_files import LocalFiles

FOLDER_VARIABLE = "HEADRACE_STATE_DIR"
"""The folder of local files, unless the pipeline names one."""
BUDGET_BYTES_MIN = 256 << 20
"""The least budget of a pipeline that names none."""
_MEMORY_SHARE = 4
"""The budgets of all slots are this part of the memory."""
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")

_MMAP_THRESHOLD, _TRIM_THRESHOLD, _ARENAS_MAX = -3, -1, -8
_LARGE_BYTES, _TRIM_BYTES, _ARENAS = 1 << 20, 16 << 20, 2
"""Options of glibc, and what they are set to."""


def opened_place(terms: StateTerms, max_parallelism: int) -> StatePlace:
    """The place of a slot's state. Raises UserError if its folder cannot be used."""
    merges = BackgroundMerges()
    if terms != MEMORY:
        _return_large_blocks()
    if terms.backend == "memory":
        return StatePlace(max_parallelism, Budget(terms.memory_bytes), merges)
    limit = terms.memory_bytes
    if limit is None:
        limit = max(BUDGET_BYTES_MIN, memory_bytes() // _MEMORY_SHARE // int(os.environ.get(SLOTS_VARIABLE, "1")))
    folder = terms.folder or os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir()
    return StatePlace(max_parallelism, Budget(limit), merges, LocalFiles(Path(folder)))


class BackgroundMerges:
    """Runs the merges of a slot in threads, one at a time, so that they do not delay the steps."""

    def __init__(self) -> None:
        self._turn = threading.Lock()

    def start(self, merge: Callable[[], Made]) -> Future[Made]:
        """Starts a merge. Its result is what `merge` returns, or raises."""
        merged: Future[Made] = Future()
        threading.Thread(target=self._run, args=(merge, merged), name="merge", daemon=True).start()
        return merged

    def _run(self, merge: Callable[[], Made], merged: Future[Made]) -> None:
        with self._turn:
            try:
                merged.set_result(merge())
            except BaseException as error:
                merged.set_exception(error)


def memory_bytes() -> int:
    """The memory of this process's container, or of its host if the container has no limit."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _LIMITS:
        with suppress(OSError, ValueError):
            found = min(found, int(Path(path).read_text(encoding="ascii")))
    return found


def _return_large_blocks() -> None:
    """Makes the C library return large blocks when they are freed, and share its arenas among threads; for a process
    whose memory is bounded. As it is set up, glibc keeps blocks of up to 32 MiB, in an arena a thread (measured: 50 MiB
    after uploads and merges). Does nothing with other libraries.
    """
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        for option, value in (
            (_MMAP_THRESHOLD, _LARGE_BYTES),
            (_TRIM_THRESHOLD, _TRIM_BYTES),
            (_ARENAS_MAX, _ARENAS),
        ):
            set_option(option, value)
