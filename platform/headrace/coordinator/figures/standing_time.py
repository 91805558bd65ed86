"""Where event time stands still although windows are open, and what it waits for. Pure: reports in, texts out.

A step's time is the lowest watermark of its subtasks that have open windows. If it has not moved for `STANDS_MS`, it
waits for a partition that holds its source's watermark back, for the next row of its slowest source, or for rows that
are between that source and the step. If its rows come through a node with several inputs, the text names the input that
holds that node's time back. Nothing here decides about rows: the texts are for people.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from headrace.coordinator.figures.job_figures import JobFigures
from headrace.coordinator.figures.quiet_partitions import AHEAD_MS, QUIET_MS
from headrace.coordinator.figures.watched_plan import WatchedPlan, WatchedSource
from headrace.core.config import duration_text
from headrace.core.signals import TIME_MIN
from headrace.core.text.plural import plural
from headrace.core.text.span_text import moment_text
from headrace.rpc.figures import PartitionFigures
from headrace.rpc.status import SlotStatus, SubtaskStatus

STANDS_MS = 30_000
"""Time that has not moved for this long, while windows are open, is reported."""
BACKPRESSURED = 0.5
"""A job with a subtask that waits for room for this share of its time is held up by rows, not by its sources."""
_SLOW = "`headrace explain --live` names what is slow"
_LATER_ROW = "a row after that end closes it, or the end of the input (`stop --drain`)"


@dataclass(frozen=True, slots=True)
class Waiting:
    """A step whose open windows wait for time.

    on         what its time waits for, as text; remedy: what helps, as text
    since_ms   when its time moved last, or its first open window got a row, if that was later (epoch ms)
    next_end   end of its first open window (epoch ms)
    source     the source that holds its time back; None: rows on their way to it do
    """

    node: str
    on: str
    remedy: str
    since_ms: int
    next_end: int
    source: str | None = None


@dataclass(frozen=True, slots=True)
class _Stand:
    """Where a step's time stands (epoch ms), and since when: by the slots' clocks, and by the coordinator's."""

    time: int
    running_ms: int
    since_ms: int


class StandingTime:
    """The steps of one attempt whose time stands still."""

    def __init__(self) -> None:
        self._stands: dict[str, _Stand] = {}

    def look(
        self, plan: WatchedPlan, figures: JobFigures, statuses: Sequence[SlotStatus], now_ms: int
    ) -> tuple[Waiting, ...]:
        """The steps that wait by the newest reports, in the plan's order. `now_ms`: epoch ms."""
        # durations are those of the slots' clocks: a step of the wall clock makes nothing wait
        running_ms = figures.running_ms
        look = _Look(plan, figures, statuses, now_ms)
        waiting = []
        for node, names in (plan.windows or {}).items():
            windows = figures.windows(node)
            if not windows:
                self._stands.pop(node, None)
                continue
            time = min(TIME_MIN if each.watermark is None else each.watermark for each in windows)
            stand = self._stands.get(node)
            if stand is None or stand.time != time:
                stand = self._stands[node] = _Stand(time, running_ms, now_ms)
            if running_ms - stand.running_ms < STANDS_MS:
                continue
            cause = look.cause(names, time)
            held = look.held_input(plan.gates.get(node)) if cause.source is not None else ""
            next_end = min(each.next_end for each in windows)
            waiting.append(Waiting(node, held + cause.on, cause.remedy, stand.since_ms, next_end, cause.source))
        return tuple(waiting)


@dataclass(frozen=True, slots=True)
class _Cause:
    on: str
    remedy: str
    source: str | None = None


@dataclass(frozen=True, slots=True)
class _Slowest:
    """The source that holds a step's time back. behind: another source of the step is further."""

    source: WatchedSource
    time: int
    behind: bool


@dataclass(frozen=True)
class _Look:
    plan: WatchedPlan
    figures: JobFigures
    statuses: Sequence[SlotStatus]
    now_ms: int

    def cause(self, names: Iterable[str], time: int) -> _Cause:
        """What the time of a step waits for, which stands at `time`. names: the sources that its rows come from."""
        slowest, queued = self._slowest(names), self._queued()
        if slowest is None:
            return queued or _Cause("rows that are on their way to it", _SLOW)
        if queued is not None and slowest.time > time:
            return queued
        partitions = self._partitions(slowest.source)
        waited_for = [each for each in partitions if not each.idle]
        if not waited_for:
            return self._next_row(slowest, partitions)
        holding = min(waited_for, key=lambda each: (_own(each), each.topic, each.partition))
        if holding.lag and queued is not None and self._is_backpressured():
            return queued
        ahead = max(map(_own, partitions)) >= _own(holding) + AHEAD_MS
        return self._partition(slowest, holding) if ahead or holding.lag else self._next_row(slowest, partitions)

    def held_input(self, gate: str | None) -> str:
        """`input 1 of GATE: `, the one that the slowest subtask of a node with several inputs waits for; or nothing."""
        subtasks = [each for each in self._subtasks if each.task == gate and each.waits_for_input is not None]
        slowest = min(subtasks, key=lambda each: TIME_MIN if each.watermark is None else each.watermark, default=None)
        return "" if slowest is None else f"input {slowest.waits_for_input} of {gate}: "

    def _slowest(self, names: Iterable[str]) -> _Slowest | None:
        """None: all sources have ended, or have no time."""
        wanted = set(names)
        sources = [(self._time(each), each) for each in self.plan.sources if each.timed and each.name in wanted]
        times = [(own, source) for own, source in sources if own is not None]
        if not times:
            return None
        time, source = min(times, key=lambda item: item[0])
        return _Slowest(source, time, behind=any(other > time for other, _ in times))

    def _time(self, source: WatchedSource) -> int | None:
        """The lowest watermark that its subtasks have emitted; None: they have ended."""
        subtasks = [each for status in self.statuses for each in status.sources if each.source == source.name]
        any_splits = any(each.has_splits for each in subtasks)
        return min(
            (
                each.watermark
                for each in subtasks
                # a subtask without partitions follows the others
                if (each.has_splits or not any_splits) and (source.task, each.subtask) not in self._ended
            ),
            default=None,
        )

    @cached_property
    def _subtasks(self) -> list[SubtaskStatus]:
        return [each for status in self.statuses for each in status.subtasks]

    @cached_property
    def _ended(self) -> frozenset[tuple[str, int]]:
        """(task, subtask) of those that have read all of their input."""
        return frozenset((each.task, each.subtask) for each in self._subtasks if each.ended)

    def _is_backpressured(self) -> bool:
        return any(each.backpressured >= BACKPRESSURED for each in self._subtasks)

    def _queued(self) -> _Cause | None:
        """The task with the most rows that wait for it; None: no task has any."""
        most = max(self._subtasks, key=lambda each: each.rows_queued, default=None)
        if most is None or not most.rows_queued:
            return None
        rows = plural(most.rows_queued, "row")
        return _Cause(f"{rows} queued at subtask {most.subtask} of {most.task}", _SLOW)

    def _partitions(self, source: WatchedSource) -> list[PartitionFigures]:
        return [
            each
            for subtask, own in self.figures.sources(source.name).items()
            if (source.task, subtask) not in self._ended
            for each in own.partitions
        ]

    def _partition(self, slowest: _Slowest, holding: PartitionFigures) -> _Cause:
        """Time waits for a partition that has messages left, or is behind others."""
        source = slowest.source
        name = f"partition {holding.partition} of {holding.topic} (source {source.name})"
        if holding.lag:
            return _Cause(f"{name}, which has {plural(holding.lag, 'message')} left to read", _SLOW, source.name)
        if holding.quiet_ms is not None and holding.quiet_ms < QUIET_MS:
            return _Cause(f"newer rows of {name}", f"check the times of its rows; {_LATER_ROW}", source.name)
        if holding.watermark is None:
            on = f"{name}, which never had a row"
        elif holding.quiet_ms is None:
            on = f"a row of {name}"
        else:
            on = f"{name}, which has had no row since {moment_text(self.now_ms - holding.quiet_ms)}"
        return _Cause(on, _idle_remedy(source), source.name)

    def _next_row(self, slowest: _Slowest, partitions: Sequence[PartitionFigures]) -> _Cause:
        """Time waits for a row of any of the source's partitions."""
        source = slowest.source
        had_one = any(each.watermark is not None for each in partitions)
        on = f"the {'next' if had_one else 'first'} row of source {source.name}"
        if partitions and all(each.idle for each in partitions):
            return _Cause(f"{on}: all of its partitions are idle", _LATER_ROW, source.name)
        return _Cause(on, _idle_remedy(source) if slowest.behind else _LATER_ROW, source.name)


def _own(partition: PartitionFigures) -> int:
    return TIME_MIN if partition.watermark is None else partition.watermark


def _idle_remedy(source: WatchedSource) -> str:
    if source.idle_after_ms is None:
        return "set `idle_after: 30s` in its `time:`"
    return f"it counts as idle after {duration_text(source.idle_after_ms)} without rows, once it has none left to read"


# ---- sources that wait for a schema ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SourceWaiting:
    """A source with a subtask that waits. on: for what, as text; since_ms: the first of them (epoch ms)."""

    node: str
    on: str
    since_ms: int


def source_waits(statuses: Iterable[SlotStatus]) -> tuple[SourceWaiting, ...]:
    """The sources that wait, by name; what several subtasks wait for is named once, for the one that waits longest."""
    found: dict[str, SourceWaiting] = {}
    for each in (each for status in statuses for each in status.sources if each.waits_on):
        waiting = SourceWaiting(each.source, each.waits_on, each.since_ms)
        if each.source not in found or waiting.since_ms < found[each.source].since_ms:
            found[each.source] = waiting
    return tuple(found[name] for name in sorted(found))
