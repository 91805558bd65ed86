"""Status reports of a slice, made a few times a second. Computes each ratio over the time between two reports."""

from __future__ import annotations

from dataclasses import dataclass

from headrace.core.signals import TIME_MIN
from headrace.plan.physical import PhysicalPlan, SourceSpec
from headrace.rpc.status import SlotStatus, SourceSubtaskStatus, SubtaskStatus
from headrace.worker.slot.attempt.due_reports import INTERVAL_MS, TIMED_INTERVAL_MS, DueReports
from headrace.worker.slot.slice import OpenSubtask, Slice
from headrace.worker.task.source_task import SourceTask


def report_interval_ms(plan: PhysicalPlan) -> int:
    """The time between two status reports of a slot of this plan."""
    times = [node.time for task in plan.tasks for node in task.nodes if isinstance(node, SourceSpec)]
    relayed = any(
        time is not None and (time.idle_after_ms is not None or time.max_drift_ms is not None) for time in times
    )
    return TIMED_INTERVAL_MS if relayed else INTERVAL_MS


@dataclass(frozen=True, slots=True)
class _Spent:
    """How long a subtask has waited for input and for room in its outlets so far, in ms."""

    waited: float = 0.0
    backpressured: float = 0.0


class StatusReport:
    """Makes the reports of one slice. Used by one thread."""

    def __init__(self, running: Slice, now_ms: int) -> None:
        self._running = running
        self._before_ms = now_ms
        self._spent: dict[str, _Spent] = {}
        self._reports = DueReports(report_interval_ms(running.plan))

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
        )

    def _subtask(self, opened: OpenSubtask, past_ms: int, *, ended: bool) -> SubtaskStatus:
        name = opened.task.name
        before, now = self._spent.get(name, _Spent()), _Spent(opened.waited_ms, opened.backpressured_ms)
        self._spent[name] = now
        backpressured = min((now.backpressured - before.backpressured) / past_ms, 1.0)
        idle = min((now.waited - before.waited) / past_ms, 1.0)
        box = opened.mailbox
        watermark, at_work = TIME_MIN if box is None else box.watermark, not ended
        if isinstance(opened.loop, SourceTask):
            status = opened.loop.status()
            # a subtask without a split does not poll: it waits for commands, and must not count as busy
            watermark, at_work = status.watermark, at_work and status.has_splits
        busy = max(0.0, 1.0 - idle - backpressured) if at_work else 0.0
        return SubtaskStatus(
            task=name,
            subtask=self._running.index,
            rows_queued=0 if box is None else box.rows_queued,
            busy=round(busy, 3),
            backpressured=round(backpressured, 3),
            watermark=None if watermark == TIME_MIN else watermark,
            ended=ended,
        )


def _source(opened: OpenSubtask) -> SourceSubtaskStatus:
    assert opened.source is not None and isinstance(opened.loop, SourceTask)
    status = opened.loop.status()
    return SourceSubtaskStatus(
        source=opened.source,
        subtask=opened.index,
        active_height=status.active_height,
        has_splits=status.has_splits,
        watermark=status.watermark,
        lag=status.lag,
    )
