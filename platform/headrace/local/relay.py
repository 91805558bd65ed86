"""The height at which idle partitions stand. Pure: heights of subtasks in, relayed heights out.

For each source it is the minimum over the source's partitions that are not idle; where all are idle, the minimum of
the job's other sources; where those are idle too, nothing moves.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence


def relayed_heights(active: Mapping[str, Sequence[int | None]]) -> dict[str, int | None]:
    """Source -> height to relay. `active`: source -> each subtask's lowest active height, None where it has none.

    A source whose partitions are all finished belongs in here with None for each subtask: it holds nobody back.
    """
    lowest = {
        source: min((height for height in heights if height is not None), default=None)
        for source, heights in active.items()
    }
    return {source: own if own is not None else _others(lowest, source) for source, own in lowest.items()}


def _others(lowest: Mapping[str, int | None], source: str) -> int | None:
    return min((height for other, height in lowest.items() if other != source and height is not None), default=None)
