"""Where the slots of this process keep their state: in memory, or nearly all of it in local files."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal

import pytest

from headrace.operators.window import state as window_state
from headrace.state import restoring, runs, table
from headrace.state.place import Budget, StatePlace, StateTerms
from headrace.worker.slot import runtime
from headrace.worker.state import restore
from headrace.worker.state.local_files import LocalFiles
from headrace.worker.state.opened_place import BackgroundMerges

Backend = Literal["memory", "disk"]
BACKENDS: tuple[Backend, ...] = ("memory", "disk")


@contextmanager
def kept_in(backend: Backend, folder: Path) -> Iterator[None]:
    """State lies in memory; or nearly all of it in local files of the folder, in parts of a few rows. These files have
    no names: the folder is empty at the end."""

    def all_in_files(terms: StateTerms, max_parallelism: int) -> StatePlace:
        return StatePlace(max_parallelism, Budget(0), BackgroundMerges(), LocalFiles(folder))

    with pytest.MonkeyPatch.context() as patched:
        if backend == "disk":
            patched.setattr(runtime, "opened_place", all_in_files)
            patched.setattr(runs, "MOVED_BYTES_MIN", 0)
            patched.setattr(table, "ROWS_RECENT_MAX", 5)
            patched.setattr(restoring, "GATHERED_ROWS_MAX", 3)
            patched.setattr(runs, "_SAMPLED_ROWS", 1)
            for module in (runs, window_state, restore):
                patched.setattr(module, "PART_ROWS_MAX", 3)
        yield
    assert not folder.exists() or not list(folder.iterdir()), "files have no names"
