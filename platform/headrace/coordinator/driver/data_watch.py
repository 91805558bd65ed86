"""Checks the reports of a job's slots periodically, and logs warnings about its data.

Shell of `coordinator.figures.data_warnings`. It belongs to the event loop, and cannot fail the job.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import TYPE_CHECKING

from headrace.checkpoint.manifest import Manifest
from headrace.coordinator.figures.data_warnings import DataWarning, DataWarnings
from headrace.coordinator.figures.job_figures import JobFigures
from headrace.coordinator.figures.slot_series import StateKey
from headrace.coordinator.figures.standing_time import Waiting
from headrace.coordinator.figures.state_growth import StateGrowth
from headrace.coordinator.figures.watched_plan import WatchedPlan, watched_plan
from headrace.core.clock import Clock
from headrace.rpc.status import SlotStatus

if TYPE_CHECKING:
    from headrace.execution.planning import JobPlans

LOG = logging.getLogger("headrace.coordinator")

LOOK_MS = 1_000
"""Shortest time between two checks before the input ends."""


class DataWatch:
    """The warnings about the data of one job's attempt."""

    def __init__(self, job: str, plans: JobPlans, clock: Clock) -> None:
        self._job = job
        self._plans = plans
        self._clock = clock
        self._figures: JobFigures | None = None
        self._plan = WatchedPlan()
        self._warnings = DataWarnings()
        self._due_ms = 0

    @property
    def warnings(self) -> tuple[DataWarning, ...]:
        """The warnings of the attempt, the oldest first."""
        return self._warnings.current

    @property
    def waiting(self) -> tuple[Waiting, ...]:
        """The steps whose time stands still."""
        return self._warnings.waiting

    @property
    def growth(self) -> StateGrowth:
        """How fast the states of the attempt grow."""
        return self._warnings.growth

    @property
    def growing(self) -> tuple[StateKey, ...]:
        """The states that nothing drops."""
        return self._plan.growing

    def look(
        self,
        figures: JobFigures,
        statuses: Mapping[int, SlotStatus],
        reported: int,
        parallelism: int,
        *,
        manifest: Manifest | None = None,
    ) -> None:
        """Judges the reports if a look is due, or slot `reported` has read all of its input. figures: of the attempt;
        another attempt has others. manifest: of the newest complete checkpoint."""
        now_ms = self._clock.monotonic_ms()
        subtasks = statuses[reported].subtasks if reported in statuses else ()
        is_over = bool(subtasks) and all(each.ended for each in subtasks)
        if now_ms < self._due_ms and figures is self._figures and not is_over:
            return
        self._due_ms = now_ms + LOOK_MS
        try:
            self._judge(figures, statuses, parallelism, manifest)
        except Exception:
            # warnings are for people: the job must not end for their sake
            LOG.exception("job %s: its data cannot be judged", self._job)

    def _judge(
        self, figures: JobFigures, statuses: Mapping[int, SlotStatus], parallelism: int, manifest: Manifest | None
    ) -> None:
        if figures is not self._figures:
            self._figures, self._warnings = figures, DataWarnings()
            self._plan = watched_plan(self._plans.plan(parallelism))
        for each in self._warnings.judge(self._plan, figures, statuses.values(), self._clock.now_ms(), manifest):
            LOG.warning("job %s: %s", self._job, each.text)
