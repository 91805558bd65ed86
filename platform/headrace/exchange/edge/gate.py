"""The gate of a subtask: combines the signals of several input channels. Pure: signals in, signals out.

Watermarks: the gate's watermark is the minimum over its channels. The gate passes EndOfInput on once, when every
channel has ended.

Barriers: the gate passes a barrier on once, when EVERY channel has delivered it. That includes channels that have
ended, because a subtask whose input has ended still passes barriers on. In aligned mode (exactly-once), a channel that
has delivered barrier n is blocked until all channels have:

    channel a  ──x──x──|n|..........x──>      "." blocked: elements behind the barrier wait in the channel
    channel b  ──x──x──x──x──x──|n|─x──>
    channel c  ──x──end────|n|.........>      ended: no rows follow, barriers do
    gate out   ──x x x x x x x x──|n|─x x

An epoch can be aborted midway: its trigger did not reach a source, or it timed out. So a newer barrier ends the
alignment of an older one, and the gate ignores a barrier whose epoch is not newer than the last passed or aborted one:

    channel a  ──|1|......|2|..──x──>         barrier 1 waits for channel b
    channel b  ──x──x──x──|2|──x──>           b never delivers 1: epoch 1 is aborted, and a is read up to its 2
    gate out   ──x x x x x──|2|─x x

In unaligned mode (at-least-once), no channel is ever blocked, and several epochs may be in progress at once: rows
behind an early barrier enter the state of its epoch, and are read again after a restore.
"""

from __future__ import annotations

import heapq
from collections.abc import Set
from typing import assert_never

from headrace.core.errors import InternalError
from headrace.core.signals import TIME_MIN, Barrier, EndOfInput, Signal, Watermark

UNALIGNED_EPOCHS_MAX = 64
"""Most epochs in progress at once in unaligned mode; beyond that the oldest is aborted."""


class Gate:
    """Combines the signals of `channels` inputs, numbered from 0."""

    def __init__(self, channels: int, *, aligned: bool = True) -> None:
        assert channels > 0, "a gate has at least one channel"
        self._channels = channels
        self._aligned = aligned
        self._watermarks = [TIME_MIN] * channels
        self._lowest = [(TIME_MIN, channel) for channel in range(channels)]
        """Heap with one entry per channel, of its current or an earlier watermark; corrected when it reaches the
        top."""
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

    @property
    def lowest_channel(self) -> int:
        """A channel with the lowest watermark: the gate's watermark waits for it."""
        return self._lowest[0][1]

    def on_signal(self, channel: int, signal: Signal) -> list[Signal]:
        """The signals that the gate passes on after `signal` from `channel`, in order."""
        # signals come from other processes, so these checks stay under -O
        if channel in self.blocked:
            raise InternalError(f"channel {channel} is blocked and was read: {signal}")
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
        if channel not in self._open:
            raise InternalError(f"channel {channel} has ended and delivered time {ts}: only barriers may follow")
        if ts < self._watermarks[channel]:
            raise InternalError(f"time on channel {channel} went back from {self._watermarks[channel]} to {ts}")
        self._watermarks[channel] = ts
        # A channel that has ended still counts in the minimum. Usually its last watermark is +inf, which the sources
        # send at the end of their input, and it holds nothing back. Sources send no +inf if they were asked to stop
        # before the end (`StopReading`), or if another job continues from a savepoint of the end (`hand_over`). Then
        # the channel's last watermark is lower, and the gate's must not pass it, so that no window after it fires.
        low = self._low()
        if low <= self._passed_on:
            return []
        self._passed_on = low
        return [Watermark(low)]

    def _low(self) -> int:
        """The minimum over all channels. Watermarks never decrease, so each of them moves a heap entry at most once."""
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
        # two epochs in aligned mode: the older one was aborted upstream, so the channels that it blocked are read again
        if len(self._arrived) > (1 if self._aligned else UNALIGNED_EPOCHS_MAX):
            self._settle(min(self._arrived))
        elif self._aligned:
            self._blocked = arrived
        return []

    def _settle(self, epoch: int) -> None:
        """Marks the epoch, and all older ones, as passed or aborted."""
        self._settled = epoch
        self._arrived = {each: channels for each, channels in self._arrived.items() if each > epoch}
        if self._aligned:
            # at most one newer epoch is left: the one whose barrier has ended this alignment
            self._blocked = next(iter(self._arrived.values()), frozenset())

    def _on_end(self, channel: int) -> list[Signal]:
        if channel not in self._open:
            raise InternalError(f"channel {channel} has ended twice")
        self._open.discard(channel)
        return [] if self._open else [EndOfInput()]
