"""How much may wait in one channel: about a second of what its reader gets done. Pure: told what was served, in how
much time; it knows no queue and no clock.

The rate is measured over the time in which the reader was busy with the rows, not over time in which it waited for
them: a source that pauses makes no reader slow. The bound follows with hysteresis, so that senders are not told of
every flutter:

    rate x 1 s, kept between least and most  ──differs by a quarter?──>  new bound
"""

from __future__ import annotations

from dataclasses import dataclass

IN_FLIGHT_S = 1.0
ROWS_LEAST, BYTES_LEAST = 256, 256 * 1024
ROWS_FIRST, BYTES_FIRST = 1_024, 1024 * 1024
"""Before anything is known: little, for a fast reader is known to be one after a few of its milliseconds."""
_OBSERVE_S, _OBSERVE_BOUNDS = 0.02, 4
"""A rate is taken after so many seconds of work, or after so many times the bounds: a fast reader is soon known."""
_BUSY_LEAST_S = 1e-4
_SMOOTHING_S = 0.1
_HYSTERESIS = 0.25


@dataclass(frozen=True, slots=True)
class ChannelBounds:
    """How much may wait in one channel. A batch is taken in while the channel is below both bounds."""

    rows_max: int = 131_072
    bytes_max: int = 64 * 1024 * 1024

    def has_room(self, rows: int, size: int) -> bool:
        """Whether a channel in which `rows` rows of `size` bytes wait takes in one more piece of a batch."""
        return rows < self.rows_max and size < self.bytes_max

    def piece_rows(self, rows: int, size: int) -> int:
        """How many of a batch's `rows` rows of together `size` bytes go in at once: a batch larger than the bound is
        taken in pieces, or the bound would mean nothing to it."""
        by_bytes = self.bytes_max * rows // size if size > self.bytes_max else rows
        return min(rows, max(1, min(max(self.rows_max, ROWS_LEAST), by_bytes)))


class AdaptiveBounds:
    """The bounds of one channel as they follow its reader, never above `most`."""

    def __init__(self, most: ChannelBounds) -> None:
        self._most = most
        self._rows = 0
        self._bytes = 0
        self._busy_s = 0.0
        self._rates: tuple[float, float] | None = None
        self.current = self._kept_between(ROWS_FIRST, BYTES_FIRST)
        """What holds now."""

    def on_served(self, rows: int, size: int, busy_s: float) -> bool:
        """The reader was busy for `busy_s` seconds with `rows` rows of `size` bytes. True when the bounds changed."""
        self._rows += rows
        self._bytes += size
        self._busy_s += busy_s
        much = self._rows >= _OBSERVE_BOUNDS * self.current.rows_max
        much |= self._bytes >= _OBSERVE_BOUNDS * self.current.bytes_max
        if not self._rows or (self._busy_s < _OBSERVE_S and not much):
            return False
        self._busy_s = max(self._busy_s, _BUSY_LEAST_S)
        seen = (self._rows / self._busy_s, self._bytes / self._busy_s)
        # what was seen for longer weighs more: one batch that took seconds says all
        weight = self._busy_s / (self._busy_s + _SMOOTHING_S)
        before = self._rates or seen
        rates = (before[0] + weight * (seen[0] - before[0]), before[1] + weight * (seen[1] - before[1]))
        self._rows, self._bytes, self._busy_s = 0, 0, 0.0
        self._rates = rates
        wanted = self._kept_between(int(rates[0] * IN_FLIGHT_S), int(rates[1] * IN_FLIGHT_S))
        if not (_differs(wanted.rows_max, self.current.rows_max) or _differs(wanted.bytes_max, self.current.bytes_max)):
            return False
        self.current = wanted
        return True

    def _kept_between(self, rows: int, size: int) -> ChannelBounds:
        return ChannelBounds(
            rows_max=min(max(rows, ROWS_LEAST), self._most.rows_max),
            bytes_max=min(max(size, BYTES_LEAST), self._most.bytes_max),
        )


def _differs(wanted: int, current: int) -> bool:
    return abs(wanted - current) > _HYSTERESIS * current
