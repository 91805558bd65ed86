"""The height with which idle partitions count. Pure: reports of subtasks in, heights to relay out.

For each source it is the minimum over the source's active partitions. If all of them are idle, it is the minimum of the
job's other sources. If those are idle too, there is no height, and no watermark advances.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from headrace.core.signals import TIME_MIN
from headrace.rpc.status import SourceSubtaskStatus


def relayed_heights(active: Mapping[str, Sequence[int | None]]) -> dict[str, int | None]:
    """Returns source -> height to relay. `active`: source -> each subtask's lowest active height, None if it has none.

    A source whose partitions are all finished has None for each subtask, so no other source waits for it.
    """
    lowest = {
        source: min((height for height in heights if height is not None), default=None)
        for source, heights in active.items()
    }
    return {source: own if own is not None else _others(lowest, source) for source, own in lowest.items()}


def _others(lowest: Mapping[str, int | None], source: str) -> int | None:
    return min((height for other, height in lowest.items() if other != source and height is not None), default=None)


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
        return relayed_heights(self.active_heights())
