"""Measures how far rows come out of order: by partition, over a sample. Pure.

The delay of a row is the distance to the newest time that its partition has shown before it. `out_of_orderness` is that
delay for a share of the rows (`QUANTILE`), rounded up; the rows with a longer delay would be late.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

from headrace.core.types import Timestamp

QUANTILE = 0.999
"""Share of the sample's rows that are on time with the proposed `out_of_orderness`."""
_STEPS_MS = (
    *(0, 100, 200, 500),
    *(seconds * 1_000 for seconds in (1, 2, 5, 10, 15, 30)),
    *(minutes * 60_000 for minutes in (1, 2, 5, 10, 15, 30)),
    *(hours * 3_600_000 for hours in (1, 2, 6, 12, 24)),
)
_DAY_MS = 86_400_000


@dataclass(frozen=True, slots=True)
class Disorder:
    """The disorder of a sample.

    rows       rows with a time
    bound_ms   the proposed `out_of_orderness`
    late       rows that would be late with it
    longest_ms the longest delay
    """

    rows: int
    bound_ms: int
    late: int
    longest_ms: int


def measured(times: Iterable[tuple[Hashable, int]]) -> Disorder | None:
    """Measures (partition, time in ms) pairs, in the order in which each partition has them; None if there are none."""
    newest: dict[Hashable, int] = {}
    delays: list[int] = []
    for partition, time_ms in times:
        top = max(newest.get(partition, time_ms), time_ms)
        newest[partition] = top
        delays.append(top - time_ms)
    if not delays:
        return None
    delays.sort()
    bound_ms = _rounded_up(delays[min(len(delays) - 1, int(QUANTILE * len(delays)))])
    return Disorder(len(delays), bound_ms, sum(delay > bound_ms for delay in delays), delays[-1])


def _rounded_up(delay_ms: int) -> int:
    return next((step for step in _STEPS_MS if step >= delay_ms), -(-delay_ms // _DAY_MS) * _DAY_MS)


def time_ms(value: object, dtype: Timestamp) -> int | None:
    """A sampled value of a time column as epoch ms; None if it is none."""
    match value:
        case bool() | None:
            return None
        case int():
            return value * 1_000 if dtype.unit == "s" else value
        case datetime():
            return _epoch_ms(value)
        case str():
            try:
                return _epoch_ms(datetime.fromisoformat(value))
            except ValueError:
                return None
        case _:
            return None


def _epoch_ms(value: datetime) -> int:
    stamped = value if value.tzinfo is not None else value.replace(tzinfo=UTC)
    return int(stamped.timestamp() * 1_000)
