"""Hands out test files to the processes of pytest-xdist, long ones first; replaces its `--dist loadfile`.

Files that would wait for a build come last while it goes on. A file is never divided, so module fixtures stay what they
are.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from support.suite.deferral import undeferred
from support.suite.durations import COMMIT, FULL, durations, next_file

if TYPE_CHECKING:
    from xdist.remote import Producer
    from xdist.scheduler import LoadFileScheduling

TESTS_MIN = 2
"""What a process has to do if there is as much: the test that it runs and the next one."""


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
            others = [
                next(reversed(files)) for other, files in self.assigned_work.items() if files and other is not node
            ]
            chosen = next_file(
                undeferred(list(self.workqueue)), seconds, processes=len(self.nodes), last=last, others=others
            )
            self.workqueue.move_to_end(chosen, last=False)
            super()._assign_work_unit(node)

        def _reschedule(self, node: WorkerController) -> None:
            if node not in self.registered_collections:
                return  # a process that has replaced another one and is not ready yet
            super()._reschedule(node)
            # a process begins a test once it knows the next one, and reports nothing while it waits for that
            while not node.shutting_down and self._pending_of(self.assigned_work[node]) < TESTS_MIN:
                super()._reschedule(node)

        def remove_node(self, node: WorkerController) -> str | None:
            """Returns the test during which a process died. Others run the rest of its files, but not that test again,
            which pytest-xdist would let kill them all, one after the other."""
            files: dict[str, dict[str, bool]] = self.assigned_work[node]
            pending = [(file, test) for file, tests in files.items() for test, is_done in tests.items() if not is_done]
            if pending:
                file, crashed = pending[0]
                files[file][crashed] = True
            # pytest-xdist hands out all files of a dead process again, and a process that is given one in which
            # everything is done would wait for ever
            self.assigned_work[node] = {file: tests for file, tests in files.items() if not all(tests.values())}
            super().remove_node(node)
            return crashed if pending else None

    return LongestFirst(config, log)
