"""Event-time alignment: how far a source's partitions may run ahead. Pure.

    slowest partition that is not idle ──+ max_drift──> limit: partitions past it pause

By `time.max_drift` (Flink: watermark alignment) each source is aligned with itself: the lag of one partition must not
accumulate as state of the others. The source task adds the hysteresis: it resumes a partition a little below the limit
at which it paused it.

While a slot holds more state than its budget, all sources are aligned with those whose rows they meet, without a drift.
The slowest one has no limit: time waits for it, and only time empties the state. (Its own height as a limit would be an
older one than it has reached, and make it crawl.)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.core.signals import TIME_MAX, TIME_MIN


def drift_limits(active: Mapping[str, Sequence[int | None]], max_drift_ms: Mapping[str, int]) -> dict[str, int | None]:
    """Returns source -> height (epoch ms, on the scale of watermarks) past which its partitions pause; None: no limit.

    active         source -> each subtask's lowest active height, as `SourceReports.active_heights` returns them
    max_drift_ms   source -> its max_drift; the result has only these sources

    While the slowest height is unknown (a partition has no row yet, a subtask has not reported) no partition pauses:
    otherwise an empty partition would stop the whole source permanently.
    """
    return {source: _limit(active.get(source, ()), drift_ms) for source, drift_ms in max_drift_ms.items()}


def pressure_limits(
    active: Mapping[str, Sequence[int | None]], meetings: Sequence[Sequence[str]]
) -> dict[str, int | None]:
    """Returns source -> height past which its partitions pause while a slot holds more state than its budget; None: no
    limit.

    meetings   for each step that waits for time, the sources of its rows; the result has only these sources

    A source that is the slowest of a step has no limit. Of a step whose slowest height is unknown no source has one.
    """
    limits: dict[str, int | None] = {}
    for sources in meetings:
        own = {source: _limit(active.get(source, ()), 0) for source in sources}
        slowest = _limit([height for source in sources for height in active.get(source, ())], 0)
        for source in sources:
            known = limits.get(source, slowest)
            if slowest is None or known is None or own[source] == slowest:
                limits[source] = None
            else:
                limits[source] = max(known, slowest)
    return limits


def lesser(limits: Mapping[str, int | None], others: Mapping[str, int | None]) -> dict[str, int | None]:
    """Both limits of each source as one."""
    both = dict(limits)
    for source, limit in others.items():
        own = both.get(source)
        both[source] = min((each for each in (own, limit) if each is not None), default=None)
    return both


def _limit(heights: Sequence[int | None], drift_ms: int) -> int | None:
    slowest = min((height for height in heights if height is not None), default=None)
    if slowest is None or slowest <= TIME_MIN:
        return None
    return min(slowest + drift_ms, TIME_MAX)
