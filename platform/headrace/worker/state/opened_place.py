"""Opens the place of a slot's state: its budget, and its local files where the pipeline wants them."""

from __future__ import annotations

import ctypes
import os
import tempfile
import threading
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from functools import partial
from pathlib import Path
from queue import SimpleQueue

from headrace.core.settings import SLOTS_VARIABLE
from headrace.state.place import Budget, Made, StatePlace, StateTerms
from headrace.worker.state.local_files import MAPPED_BYTES_MAX, LocalFiles

FOLDER_VARIABLE = "HEADRACE_STATE_DIR"
"""The folder of local files, unless the pipeline names one."""
BUDGET_BYTES_MIN = 256 << 20
"""The least budget of a pipeline that names none."""
_MEMORY_SHARE = 4
"""The budgets of all slots are this part of the memory."""
_MMAP_THRESHOLD, _TRIM_THRESHOLD, _ARENAS_MAX = -3, -1, -8
"""Options of glibc's `mallopt`."""
_LARGE_BYTES, _TRIM_BYTES, _ARENAS = 1 << 20, 16 << 20, 2
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def opened_place(terms: StateTerms, max_parallelism: int) -> StatePlace:
    """The place of a slot's state. Raises UserError if its folder cannot be used."""
    merges = BackgroundMerges()
    if terms.memory_bytes is not None:
        _return_large_blocks()
    if terms.backend == "memory":
        return StatePlace(max_parallelism, Budget(terms.memory_bytes), merges)
    limit = terms.memory_bytes
    if limit is None:
        limit = max(BUDGET_BYTES_MIN, memory_bytes() // _MEMORY_SHARE // int(os.environ.get(SLOTS_VARIABLE, "1")))
    folder = terms.folder or os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir()
    return StatePlace(max_parallelism, Budget(limit), merges, LocalFiles(Path(folder), max(limit, MAPPED_BYTES_MAX)))


def _return_large_blocks() -> None:
    """Makes glibc return large blocks when they are freed, and share its arenas among threads. As it is set up, it
    keeps blocks of up to 32 MiB, in an arena a thread (measured: 50 MiB after uploads and merges). Does nothing with
    other libraries."""
    set_option = getattr(ctypes.CDLL(None), "mallopt", None)
    if set_option is not None:
        for option, value in (
            (_MMAP_THRESHOLD, _LARGE_BYTES),
            (_TRIM_THRESHOLD, _TRIM_BYTES),
            (_ARENAS_MAX, _ARENAS),
        ):
            set_option(option, value)


class BackgroundMerges:
    """Runs the merges of a slot in a thread, one at a time, and short work in another one, so that neither delays the
    steps. Threads begin with the first work, and end once nobody has this."""

    def __init__(self) -> None:
        self._merges = _Worker("merge")
        self._short = _Worker("move")

    def start(self, merge: Callable[[], Made]) -> Future[Made]:
        """Starts a merge. Its result is what `merge` returns, or raises."""
        return self._merges.start(merge)

    def start_short(self, work: Callable[[], Made]) -> Future[Made]:
        """Starts work that waits for no merge. Its result is what `work` returns, or raises."""
        return self._short.start(work)


class _Worker:
    """A thread that works through a queue. To start a thread for each work would let the caller wait until it runs."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._works: SimpleQueue[Callable[[], None] | None] = SimpleQueue()
        self._thread: threading.Thread | None = None
        self._starting = threading.Lock()
        # not at exit: the thread is a daemon
        weakref.finalize(self, self._works.put, None).atexit = False

    def start(self, work: Callable[[], Made]) -> Future[Made]:
        made: Future[Made] = Future()
        self._works.put(partial(_work, work, made))
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=_work_through, args=(self._works,), name=self._name, daemon=True)
                self._thread.start()
        return made


def _work_through(works: SimpleQueue[Callable[[], None] | None]) -> None:
    while (work := works.get()) is not None:
        work()
        # what it worked on is freed before the next work comes
        del work


def _work(work: Callable[[], Made], made: Future[Made]) -> None:
    try:
        made.set_result(work())
    except BaseException as error:
        made.set_exception(error)


def memory_bytes() -> int:
    """The memory of this process's container, or of its host if the container has no limit."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _LIMITS:
        with suppress(OSError, ValueError):
            found = min(found, int(Path(path).read_text(encoding="ascii")))
    return found
