"""Hands out test files to the processes of pytest-xdist, longest first; replaces its `--dist loadfile`.

A file is never divided, so module fixtures stay what they are.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

import pytest

from support.suite.durations import COMMIT, FULL, durations, next_file

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> LoadFileScheduling | None:
    """None leaves other distributions to pytest-xdist."""
    if config.getoption("dist") != "loadfile":
        return None
    from xdist.scheduler import LoadFileScheduling
    from xdist.workermanage import WorkerController

    seconds = durations(FULL if config.getoption("--full") else COMMIT)

    class LongestFirst(LoadFileScheduling):  # type: ignore[misc]  # pytest-xdist ships no types
        """Chooses the next file when a process needs one; everything else is pytest-xdist's."""

        def _assign_work_unit(self, node: WorkerController) -> None:
            # a process that has died leaves its files to the others
            done = self.assigned_work.get(node)
            last = next(reversed(done)) if done else None
            chosen = next_file(list(self.workqueue), seconds, processes=len(self.nodes), last=last)
            self.workqueue.move_to_end(chosen, last=False)
            super()._assign_work_unit(node)

        def remove_node(self, node: WorkerController) -> str | None:
            """Returns the test during which a process died. Others run the rest of its files, but not that test again,
            which pytest-xdist would let kill them all, one after the other."""
            files: Iterable[dict[str, bool]] = self.assigned_work[node].values()
            pending = [(file, test) for file in files for test, is_done in file.items() if not is_done]
            if pending:
                file, crashed = pending[0]
                file[crashed] = True
            super().remove_node(node)
            return crashed if pending else None

    return LongestFirst(config, log)
