"""Logs what looks wrong in the data of a local job, by the reports that its slices would send to a coordinator."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from headrace.coordinator.figures.data_warnings import DataWarnings
from headrace.coordinator.figures.job_figures import JobFigures
from headrace.coordinator.figures.standing_time import Waiting
from headrace.coordinator.figures.watched_plan import watched_plan
from headrace.core.clock import Clock
from headrace.local.engine.subtask_epochs import SubtaskId
from headrace.plan.physical import PhysicalPlan
from headrace.worker.slot.slice import Slice
from headrace.worker.slot.status_report import StatusReport

LOG = logging.getLogger("headrace.local")

LOOK_MS = 1_000
"""The least time between two looks while the input lasts."""


class SliceWatch:
    """The warnings of one job, whose subtasks begin to run when this is made. Used by one thread."""

    def __init__(self, plan: PhysicalPlan, slices: Sequence[Slice], clock: Clock) -> None:
        self._clock = clock
        self._plan = watched_plan(plan)
        now_ms = clock.monotonic_ms()
        self._reports = {part.index: (part, StatusReport(part, now_ms)) for part in slices}
        self._figures = JobFigures()
        self._warnings = DataWarnings()
        self._due_ms = now_ms + LOOK_MS
        self._is_over = False

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """The steps whose time stands still."""
        return self._warnings.waiting

    def look(self, input_left: frozenset[SubtaskId]) -> None:
        """Judges the data if a look is due, or all input has just ended. input_left: subtasks that still have some."""
        now_ms = self._clock.monotonic_ms()
        is_over = not input_left
        if self._is_over or (now_ms < self._due_ms and not is_over):
            return
        self._due_ms, self._is_over = now_ms + LOOK_MS, is_over
        try:
            self._judge(now_ms, input_left)
        except Exception:
            # warnings are for people: the job must not end for their sake
            LOG.exception("the data cannot be judged")

    def _judge(self, now_ms: int, input_left: frozenset[SubtaskId]) -> None:
        statuses = []
        for index, (part, report) in self._reports.items():
            ended = frozenset(task.name for task in part.tasks if (task.name, index) not in input_left)
            status = report.report(now_ms, ended, due=False)
            assert status is not None, "it is not made because it is due"
            self._figures.take(index, status)
            statuses.append(status)
        for each in self._warnings.judge(self._plan, self._figures, statuses, self._clock.now_ms()):
            LOG.warning("%s", each.text)
