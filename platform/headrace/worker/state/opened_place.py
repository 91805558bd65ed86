"""Opens the place of a slot's state: its budget, and its local files where the pipeline wants them."""

from __future__ import annotations

import os
import tempfile
from contextlib import suppress
from pathlib import Path

from headrace.core.settings import SLOTS_VARIABLE
from headrace.state.place import Budget, Merges, StatePlace, StateTerms
from headrace.worker.state.local_files import LocalFiles

FOLDER_VARIABLE = "HEADRACE_STATE_DIR"
"""The folder of local files, unless the pipeline names one."""
BUDGET_BYTES_MIN = 256 << 20
"""The least budget of a pipeline that names none."""
_MEMORY_SHARE = 4
"""The budgets of all slots are this part of the memory."""
_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def opened_place(terms: StateTerms, max_parallelism: int) -> StatePlace:
    """The place of a slot's state. Raises UserError if its folder cannot be used."""
    merges = Merges(in_background=True)
    if terms.backend == "memory":
        return StatePlace(max_parallelism, Budget(terms.memory_bytes), merges)
    limit = terms.memory_bytes
    if limit is None:
        limit = max(BUDGET_BYTES_MIN, memory_bytes() // _MEMORY_SHARE // int(os.environ.get(SLOTS_VARIABLE, "1")))
    folder = terms.folder or os.environ.get(FOLDER_VARIABLE) or tempfile.gettempdir()
    return StatePlace(max_parallelism, Budget(limit), merges, LocalFiles(Path(folder)))


def memory_bytes() -> int:
    """The memory of this process's container, or of its host if the container has no limit."""
    found = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    for path in _LIMITS:
        with suppress(OSError, ValueError):
            found = min(found, int(Path(path).read_text(encoding="ascii")))
    return found
