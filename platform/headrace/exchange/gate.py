"""The gate of a subtask: what several input channels add up to. Pure: it takes signals and answers with signals.

Watermarks: the gate's time is the minimum over its channels; a channel that ended no longer counts.
Barriers: aligned. A channel that delivered barrier n is blocked until every other open channel delivered it too; then
the gate passes the barrier on once and unblocks all:

    channel a  ──x──x──|n|..........x──>      "." blocked: what is behind the barrier waits in the channel
    channel b  ──x──x──x──x──x──|n|─x──>
    gate out   ──x x x x x x x x──|n|─x x
"""

from __future__ import annotations

from headrace.core.signals import TIME_MIN, Barrier, EndOfInput, Signal, Watermark


class Gate:
    """Adds up the signals of `channels` inputs, numbered from 0."""

    def __init__(self, channels: int) -> None:
        assert channels > 0, "a gate has at least one channel"
        self._watermarks = [TIME_MIN] * channels
        self._open = set(range(channels))
        self._blocked: set[int] = set()
        self._epoch: int | None = None
        self._passed_on = TIME_MIN

    @property
    def blocked(self) -> frozenset[int]:
        """Channels that must not be read until the barrier in progress is complete."""
        return frozenset(self._blocked)

    @property
    def ended(self) -> bool:
        """Whether every channel has ended."""
        return not self._open

    def on_signal(self, channel: int, signal: Signal) -> list[Signal]:
        """What the gate passes on because `channel` delivered `signal`, in order."""
        assert channel in self._open, f"channel {channel} has ended and delivered {signal}"
        match signal:
            case Watermark(ts):
                assert ts >= self._watermarks[channel], "time on a channel never goes back"
                self._watermarks[channel] = ts
                return self._advance()
            case Barrier(epoch):
                return self._on_barrier(channel, epoch)
            case EndOfInput():
                return self._on_end(channel)

    def _advance(self) -> list[Signal]:
        # an ended channel said +inf before its end, or it was cut short and time must not pass it
        low = min(self._watermarks)
        if low <= self._passed_on:
            return []
        self._passed_on = low
        return [Watermark(low)]

    def _on_barrier(self, channel: int, epoch: int) -> list[Signal]:
        assert channel not in self._blocked, "a blocked channel is not read"
        assert self._epoch in (None, epoch), f"barrier {epoch} inside the alignment of {self._epoch}"
        self._epoch = epoch
        self._blocked.add(channel)
        return self._complete()

    def _complete(self) -> list[Signal]:
        if self._epoch is None or not self._open <= self._blocked:
            return []
        epoch, self._epoch = self._epoch, None
        self._blocked.clear()
        return [Barrier(epoch)]

    def _on_end(self, channel: int) -> list[Signal]:
        self._open.discard(channel)
        self._blocked.discard(channel)
        if not self._open:
            return [*self._complete(), EndOfInput()]
        return self._complete()
