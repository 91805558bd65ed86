"""Status reports of a slice, made a few times a second. Computes each ratio over the time between two reports."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.connect.sink import TransactionsWriter
from headrace.core.reporting import reported
from headrace.core.signals import TIME_MIN
from headrace.plan.physical import PhysicalPlan, SourceSpec
from headrace.rpc.figures import FIGURES_INTERVAL_MS, SlotFigures, TimeFigures
from headrace.rpc.status import SlotStatus, SourceSubtaskStatus, SubtaskStatus
from headrace.worker.slot.attempt.due_reports import INTERVAL_MS, TIMED_INTERVAL_MS, DueReports
from headrace.worker.slot.slice import OpenSubtask, Slice
from headrace.worker.slot.slot_figures import (
    key_figures,
    late_figures,
    node_figures,
    source_figures,
    transaction_figures,
    window_figures,
)
from headrace.worker.task.source_task import SourceTask


def report_interval_ms(plan: PhysicalPlan) -> int:
    """The time between two status reports of a slot of this plan."""
    times = [node.time for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec)]
    relayed = any(
        time is not None and (time.idle_after_ms is not None or time.max_drift_ms is not None) for time in times
    )
    return TIMED_INTERVAL_MS if relayed else INTERVAL_MS


@dataclass(slots=True)
class _Times:
    """How a subtask has spent its time until the last report, in ms. waited: for input, as its loop measures it."""

    waited: float = 0.0
    busy: float = 0.0
    idle: float = 0.0
    backpressured: float = 0.0


class StatusReport:
    """Makes the reports of one slice. Used by one thread."""

    def __init__(self, running: Slice, now_ms: int) -> None:
        self._running = running
        self._began_ms = self._before_ms = now_ms
        self._times: dict[str, _Times] = {}
        self._reports = DueReports(report_interval_ms(running.plan))
        self._figures_due_ms = now_ms

    def begin(self, now_ms: int) -> None:
        """The subtasks begin to run: figures count from here on."""
        self._began_ms = self._before_ms = self._figures_due_ms = now_ms

    def report(self, now_ms: int, ended: frozenset[str], *, due: bool) -> SlotStatus | None:
        """The status now; None if it is only due, and says nothing new.

        `now_ms`: monotonic; `ended`: tasks whose input has ended."""
        sources = tuple(_source(each) for each in self._running.subtasks if each.source is not None)
        if due and not self._reports.is_news(sources, now_ms):
            return None
        self._reports.made(sources, now_ms)
        past_ms = max(now_ms - self._before_ms, 1)
        self._before_ms = now_ms
        opened = self._running.subtasks
        return SlotStatus(
            counters={node: dict(own) for each in opened for node, own in list(each.counters.items())},
            subtasks=tuple(self._subtask(each, past_ms, ended=each.task.name in ended) for each in opened),
            sources=sources,
            # a report that is not due tells of an end: its figures may be the last ones
            figures=None if due and now_ms < self._figures_due_ms else reported("figures", None, self._figures, now_ms),
        )

    def _subtask(self, opened: OpenSubtask, past_ms: int, *, ended: bool) -> SubtaskStatus:
        name = opened.task.name
        spent = self._times.setdefault(name, _Times())
        waited_ms, backpressured_ms = opened.waited_ms, opened.backpressured_ms
        backpressured = min((backpressured_ms - spent.backpressured) / past_ms, 1.0)
        idle = min((waited_ms - spent.waited) / past_ms, 1.0)
        spent.waited, spent.backpressured = waited_ms, backpressured_ms
        box = opened.mailbox
        watermark, at_work = TIME_MIN if box is None else box.watermark, not ended
        if isinstance(opened.loop, SourceTask):
            status = opened.loop.status()
            # a subtask without a split does not poll: it waits for commands, and must not count as busy
            watermark, at_work = status.watermark, at_work and status.has_splits
        busy = max(0.0, 1.0 - idle - backpressured) if at_work else 0.0
        spent.busy += busy * past_ms
        spent.idle += max(0.0, 1.0 - busy - backpressured) * past_ms
        return SubtaskStatus(
            task=name,
            subtask=self._running.index,
            rows_queued=0 if box is None else box.rows_queued,
            busy=round(busy, 3),
            backpressured=round(backpressured, 3),
            watermark=None if watermark == TIME_MIN else watermark,
            waits_for_input=None if box is None else box.waits_for_input,
            ended=ended,
        )

    def _figures(self, now_ms: int) -> SlotFigures:
        """The figures now. To be called after `_subtask` has added up the times of every subtask."""
        self._figures_due_ms = now_ms + FIGURES_INTERVAL_MS
        opened = self._running.subtasks
        return SlotFigures(
            at_ms=max(now_ms - self._began_ms, 0),
            nodes=tuple(figures for each in opened for figures in node_figures(each, self._worked_ms(each))),
            times=tuple(_time_figures(each, self._times[each.task.name]) for each in opened),
            sources=tuple(
                source_figures(each.source, each.loop) for each in opened if isinstance(each.loop, SourceTask)
            ),
            transactions=transaction_figures(
                part for each in opened for part in each.thread.parts if isinstance(part, TransactionsWriter)
            ),
            keys=tuple(figures for each in opened for figures in key_figures(each)),
            late=tuple(figures for each in opened for figures in late_figures(each)),
            windows=tuple(figures for each in opened for figures in window_figures(each)),
        )

    def _worked_ms(self, opened: OpenSubtask) -> float:
        """How long the subtask has not waited for input."""
        spent = self._times[opened.task.name]
        return spent.busy + spent.backpressured


def _time_figures(opened: OpenSubtask, spent: _Times) -> TimeFigures:
    return TimeFigures(
        task=opened.task.name,
        busy_ms=round(spent.busy),
        idle_ms=round(spent.idle),
        backpressured_ms=round(spent.backpressured),
        batches=opened.loop.batches,
    )


def _source(opened: OpenSubtask) -> SourceSubtaskStatus:
    assert opened.source is not None and isinstance(opened.loop, SourceTask)
    status = opened.loop.status()
    return SourceSubtaskStatus(
        source=opened.source,
        subtask=opened.index,
        active_height=status.active_height,
        reached=status.reached,
        has_splits=status.has_splits,
        watermark=status.watermark,
        lag=status.lag,
    )
