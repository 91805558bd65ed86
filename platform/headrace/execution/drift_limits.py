"""Event-time alignment (`time.max_drift`; Flink: watermark alignment): how far a source's partitions may run ahead of
its slowest. Pure.

    slowest partition that is not idle ──+ max_drift──> limit: partitions past it pause

Each source is aligned with itself: the lag of one partition must not accumulate as state of the others. The source task
adds the hysteresis: it resumes a partition a little below the limit at which it paused it.
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


def _limit(heights: Sequence[int | None], drift_ms: int) -> int | None:
    slowest = min((height for height in heights if height is not None), default=None)
    if slowest is None or slowest <= TIME_MIN:
        return None
    return min(slowest + drift_ms, TIME_MAX)
