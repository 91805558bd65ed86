"""The gate of a subtask: what several input channels add up to. Pure: it takes signals and answers with signals.

Watermarks: the gate's time is the minimum over its channels. EndOfInput passes on once, when every channel ended.

Barriers: a barrier passes on once, when EVERY channel delivered it, those that ended as well: a subtask whose input
ended still passes barriers on. Aligned (exactly-once), a channel that delivered barrier n is blocked until all have:

    channel a  ──x──x──|n|..........x──>      "." blocked: what is behind the barrier waits in the channel
    channel b  ──x──x──x──x──x──|n|─x──>
    channel c  ──x──end────|n|.........>      ended: no rows follow, barriers do
    gate out   ──x x x x x x x x──|n|─x x

An epoch can be given up on the way (its trigger never reached a source, or it timed out). So a newer barrier ends the
alignment of an older one, and a barrier that is not newer than what passed or was given up is ignored:

    channel a  ──|1|......|2|..──x──>         1 waits for b
    channel b  ──x──x──x──|2|──x──>           b never had 1: it is given up, a is read on, up to its 2
    gate out   ──x x x x x──|2|─x x

Not aligned (at-least-once), nothing is ever blocked, and several epochs may be on their way at once: the rows behind
a barrier that is early get into the state of its epoch, and are read again after a restore.
"""

from __future__ import annotations

import heapq
from collections.abc import Set
from typing import assert_never

from headrace.core.signals import TIME_MIN, Barrier, EndOfInput, Signal, Watermark

UNALIGNED_EPOCHS_MAX = 64
"""Epochs on their way at once through a gate that does not align; the oldest is given up beyond that."""


class Gate:
    """Adds up the signals of `channels` inputs, numbered from 0."""

    def __init__(self, channels: int, *, aligned: bool = True) -> None:
        assert channels > 0, "a gate has at least one channel"
        self._channels = channels
        self._aligned = aligned
        self._watermarks = [TIME_MIN] * channels
        self._lowest = [(TIME_MIN, channel) for channel in range(channels)]
        """Heap with one entry for each channel, of a time that it has said; put right when it comes to the top."""
        self._open = set(range(channels))
        self._arrived: dict[int, set[int]] = {}
        self._blocked: frozenset[int] | set[int] = frozenset()
        self._settled = -1
        self._passed_on = TIME_MIN

    @property
    def blocked(self) -> Set[int]:
        """Channels that must not be read until the barrier in progress is complete. Changes with the next signal."""
        return self._blocked

    @property
    def ended(self) -> bool:
        """Whether every channel has ended."""
        return not self._open

    @property
    def watermark(self) -> int:
        """The last watermark passed on (epoch ms)."""
        return self._passed_on

    def on_signal(self, channel: int, signal: Signal) -> list[Signal]:
        """What the gate passes on because `channel` delivered `signal`, in order."""
        assert channel not in self.blocked, f"channel {channel} is blocked and was read: {signal}"
        match signal:
            case Watermark(ts):
                return self._on_watermark(channel, ts)
            case Barrier(epoch):
                return self._on_barrier(channel, epoch)
            case EndOfInput():
                return self._on_end(channel)
            case _:
                assert_never(signal)

    def _on_watermark(self, channel: int, ts: int) -> list[Signal]:
        assert channel in self._open, f"channel {channel} has ended and delivered time {ts}: only barriers may follow"
        assert ts >= self._watermarks[channel], "time on a channel never goes back"
        self._watermarks[channel] = ts
        # an ended channel said +inf before its end, or it was cut short and time must not pass it
        low = self._low()
        if low <= self._passed_on:
            return []
        self._passed_on = low
        return [Watermark(low)]

    def _low(self) -> int:
        """The minimum over all channels. Times only grow, so each of them moves an entry at most once."""
        while (time := self._watermarks[self._lowest[0][1]]) != self._lowest[0][0]:
            heapq.heapreplace(self._lowest, (time, self._lowest[0][1]))
        return self._lowest[0][0]

    def _on_barrier(self, channel: int, epoch: int) -> list[Signal]:
        if epoch <= self._settled:
            return []
        arrived = self._arrived.setdefault(epoch, set())
        arrived.add(channel)
        if len(arrived) == self._channels:
            self._settle(epoch)
            return [Barrier(epoch)]
        if len(self._arrived) > (1 if self._aligned else UNALIGNED_EPOCHS_MAX):
            self._settle(min(self._arrived))
        elif self._aligned:
            self._blocked = arrived
        return []

    def _settle(self, epoch: int) -> None:
        """The epoch has passed or is given up, and all older ones with it."""
        self._settled = epoch
        self._arrived = {each: channels for each, channels in self._arrived.items() if each > epoch}
        if self._aligned:
            # a newer epoch at most: it has ended the alignment of this one
            self._blocked = next(iter(self._arrived.values()), frozenset())

    def _on_end(self, channel: int) -> list[Signal]:
        assert channel in self._open, f"channel {channel} has ended twice"
        self._open.discard(channel)
        return [] if self._open else [EndOfInput()]
