"""The height with which idle partitions count. Pure: reports of subtasks in, heights to relay out.

For each source it is the minimum over the source's active partitions. If all of them are idle, it is the greatest own
watermark that one of them has reached: nothing else is known to come before it, and windows that have ended by then are
emitted. If the job's other sources are active and further on, it is their minimum. A source that has never had a row
holds nothing back: if the others are idle, too, it stands at the greatest height of them.

(Flink's `StatusWatermarkValve` passes on the highest watermark of its inputs when all of them become idle.)
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.core.signals import TIME_MIN
from headrace.rpc.status import SourceSubtaskStatus

Heights = Mapping[str, Sequence[int | None]]
"""Source -> a height of each subtask (epoch ms); None: it has none."""


def relayed_heights(active: Heights, reached: Heights) -> dict[str, int | None]:
    """Returns source -> height to relay. None: nothing is known, and no watermark advances.

    active   the lowest height of active partitions. A source whose partitions are all finished has None for each
             subtask, so no other source waits for it
    reached  the greatest own watermark of any partition; None before the first row
    """
    lowest = {source: _least(heights) for source, heights in active.items()}
    greatest = {source: _greatest(reached.get(source, ())) for source in active}
    return {source: _idle_height(source, lowest, greatest) if own is None else own for source, own in lowest.items()}


def _idle_height(source: str, lowest: Mapping[str, int | None], greatest: Mapping[str, int | None]) -> int | None:
    others = _least(height for other, height in lowest.items() if other != source)
    own = greatest[source]
    if own is None and others is None:
        return _greatest(greatest.values())
    return _greatest((own, others))


def _least(heights: Iterable[int | None]) -> int | None:
    return min((height for height in heights if height is not None), default=None)


def _greatest(heights: Iterable[int | None]) -> int | None:
    return max((height for height in heights if height is not None), default=None)


class SourceReports:
    """The last report of every source subtask of one attempt.

    A subtask without a report holds time back, because its splits are not known yet.
    """

    def __init__(self, parallelism: Mapping[str, int]) -> None:
        """`parallelism`: source -> subtasks, for the sources whose time is relayed (those that have any)."""
        self._last: dict[str, list[SourceSubtaskStatus | None]] = {
            source: [None] * count for source, count in parallelism.items()
        }

    def take(self, reports: Iterable[SourceSubtaskStatus]) -> None:
        """Stores newer reports; ignores those of sources without event time."""
        for report in reports:
            if report.source in self._last:
                self._last[report.source][report.subtask] = report

    def active_heights(self) -> dict[str, list[int | None]]:
        """Returns source -> lowest active height of each subtask: None if all is idle, TIME_MIN if it is unknown."""
        return {
            source: [TIME_MIN if report is None else report.active_height for report in reports]
            for source, reports in self._last.items()
        }

    def heights(self) -> dict[str, int | None]:
        """Returns source -> height to relay to its subtasks now."""
        reached = {
            source: [None if report is None else report.reached for report in reports]
            for source, reports in self._last.items()
        }
        return relayed_heights(self.active_heights(), reached)
