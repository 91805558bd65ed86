"""Which of a slot's due status reports are sent. Pure.

A coordinator acts at once on the heights in a report, and shows the rest to users. Where heights are relayed a report
is due ten times a second, so that time advances; while they stand still it says nothing new.
"""

from __future__ import annotations

from collections.abc import Sequence

from headrace.rpc.status import SourceSubtaskStatus

INTERVAL_MS = 500
TIMED_INTERVAL_MS = 100
"""The interval if heights of idle partitions or drift limits are relayed: they advance only with the reports."""


class DueReports:
    """The reports of one attempt. interval_ms: between two that are due."""

    def __init__(self, interval_ms: int) -> None:
        # one interval less: the last report was made a moment after it was due
        self._quiet_ms = INTERVAL_MS - interval_ms
        self._made_ms = 0
        self._heights: tuple[tuple[str, int | None, bool], ...] = ()

    def is_news(self, sources: Sequence[SourceSubtaskStatus], now_ms: int) -> bool:
        """Whether the report that is due now is to be sent."""
        return _heights(sources) != self._heights or now_ms - self._made_ms >= self._quiet_ms

    def made(self, sources: Sequence[SourceSubtaskStatus], now_ms: int) -> None:
        """Notes a report that is sent, due or not."""
        self._made_ms, self._heights = now_ms, _heights(sources)


def _heights(sources: Sequence[SourceSubtaskStatus]) -> tuple[tuple[str, int | None, bool], ...]:
    return tuple((each.source, each.active_height, each.has_splits) for each in sources)
