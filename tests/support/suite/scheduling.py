"""Hands out test files to the processes of pytest-xdist, longest first; replaces its `--dist loadfile`.

A file is never divided, so module fixtures stay what they are.
"""

from __future__ import annotations

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

    return LongestFirst(config, log)
