"""Event-time alignment (`time.max_drift`): how far ahead of the slowest a source's partitions may run. Pure.

    slowest partition that is not idle ──+ max_drift──> limit: partitions past it pause

Each source is held against itself: what falls behind in one partition must not pile up as state of the others. The
hysteresis is the source task's: it resumes a partition a little below the limit at which it paused it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from headrace.core.signals import TIME_MAX, TIME_MIN


def drift_limits(active: Mapping[str, Sequence[int | None]], max_drift_ms: Mapping[str, int]) -> dict[str, int | None]:
    """Source -> height (epoch ms, on the scale of watermarks) past which its partitions pause; None: no limit.

    active        source -> each subtask's lowest active height, as `SourceReports.active_heights` gives them
    max_drift_ms  source -> its max_drift; only these sources are in the answer

    While the slowest height is unknown (a partition has no row yet, a subtask has not reported) nobody pauses: an empty
    partition would else stop the whole source for good.
    """
    return {source: _limit(active.get(source, ()), drift_ms) for source, drift_ms in max_drift_ms.items()}


def _limit(heights: Sequence[int | None], drift_ms: int) -> int | None:
    slowest = min((height for height in heights if height is not None), default=None)
    if slowest is None or slowest <= TIME_MIN:
        return None
    return min(slowest + drift_ms, TIME_MAX)
