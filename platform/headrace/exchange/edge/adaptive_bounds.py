"""Computes the bound of a channel: the rows and bytes that its reader processes in about a second (`IN_FLIGHT_S`).
Pure: its input is rows served and busy time; it knows neither queues nor clocks.

The reader's rate is rows per second of the time in which it was busy with rows. Time in which it waited for rows does
not count, so a source that pauses does not lower the measured rate. The bound follows the rate with hysteresis, so that
senders are not notified of small changes:

    rate x 1 s, clipped to [least, most]  ──differs by a quarter?──>  new bound
"""

from __future__ import annotations

from dataclasses import dataclass

IN_FLIGHT_S = 1.0
ROWS_LEAST, BYTES_LEAST = 256, 256 * 1024
ROWS_FIRST, BYTES_FIRST = 1_024, 1024 * 1024
"""Initial bounds: small, because a fast reader is recognised within a few milliseconds."""
_OBSERVE_S, _OBSERVE_BOUNDS = 0.02, 4
"""A rate is measured after 0.02 s of work, or after 4 times the bounds, so that a fast reader is recognised soon."""
_BUSY_LEAST_S = 1e-4
_SMOOTHING_S = 0.1
_HYSTERESIS = 0.25


@dataclass(frozen=True, slots=True)
class ChannelBounds:
    """The capacity of one channel. A channel accepts a batch while it is below both bounds."""

    rows_max: int = 131_072
    bytes_max: int = 64 * 1024 * 1024

    def has_room(self, rows: int, size: int) -> bool:
        """Whether a channel with `rows` rows of `size` bytes accepts another piece of a batch."""
        return rows < self.rows_max and size < self.bytes_max

    def piece_rows(self, rows: int, size: int) -> int:
        """Rows of the next piece of a batch that has `rows` rows and `size` bytes in total. A batch that exceeds the
        bounds is sent in pieces, so that the bounds hold for large batches too."""
        by_bytes = self.bytes_max * rows // size if size > self.bytes_max else rows
        return min(rows, max(1, min(max(self.rows_max, ROWS_LEAST), by_bytes)))


class AdaptiveBounds:
    """The bounds of one channel. They follow the rate of its reader, and never exceed `most`. Not thread-safe."""

    def __init__(self, most: ChannelBounds) -> None:
        self._most = most
        self._rows = 0
        self._bytes = 0
        self._busy_s = 0.0
        self._rates: tuple[float, float] | None = None
        self.current = self._kept_between(ROWS_FIRST, BYTES_FIRST)
        """The current bounds."""

    def on_served(self, rows: int, size: int, busy_s: float) -> bool:
        """Records that the reader was busy for `busy_s` seconds with `rows` rows of `size` bytes. Returns whether the
        bounds changed."""
        self._rows += rows
        self._bytes += size
        self._busy_s += busy_s
        much = self._rows >= _OBSERVE_BOUNDS * self.current.rows_max
        much |= self._bytes >= _OBSERVE_BOUNDS * self.current.bytes_max
        if not self._rows or (self._busy_s < _OBSERVE_S and not much):
            return False
        self._busy_s = max(self._busy_s, _BUSY_LEAST_S)
        seen = (self._rows / self._busy_s, self._bytes / self._busy_s)
        # a longer observation has more weight: one batch of several seconds sets the rate alone
        weight = self._busy_s / (self._busy_s + _SMOOTHING_S)
        before = self._rates or seen
        rates = (before[0] + weight * (seen[0] - before[0]), before[1] + weight * (seen[1] - before[1]))
        self._rows, self._bytes, self._busy_s = 0, 0, 0.0
        self._rates = rates
        target = self._kept_between(int(rates[0] * IN_FLIGHT_S), int(rates[1] * IN_FLIGHT_S))
        if not (_differs(target.rows_max, self.current.rows_max) or _differs(target.bytes_max, self.current.bytes_max)):
            return False
        self.current = target
        return True

    def _kept_between(self, rows: int, size: int) -> ChannelBounds:
        return ChannelBounds(
            rows_max=min(max(rows, ROWS_LEAST), self._most.rows_max),
            bytes_max=min(max(size, BYTES_LEAST), self._most.bytes_max),
        )


def _differs(wanted: int, current: int) -> bool:
    return abs(wanted - current) > _HYSTERESIS * current
