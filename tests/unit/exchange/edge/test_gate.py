"""The gate: minimum of watermarks, barriers of every channel, aligned or not, epochs given up, ends."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InternalError
from headrace.core.signals import TIME_MAX, TIME_MIN, Barrier, EndOfInput, Signal, Watermark
from headrace.exchange.edge.gate import UNALIGNED_EPOCHS_MAX, Gate
from support.suite.properties import weighted


def test_time_is_the_minimum_over_channels() -> None:
    gate = Gate(2)
    assert gate.on_signal(0, Watermark(10)) == []
    assert gate.watermark == TIME_MIN
    assert gate.on_signal(1, Watermark(4)) == [Watermark(4)]
    assert gate.on_signal(1, Watermark(20)) == [Watermark(10)]
    assert gate.on_signal(1, Watermark(30)) == []
    assert gate.watermark == 10
    assert gate.lowest_channel == 0


def test_a_barrier_blocks_its_channel_until_all_have_it() -> None:
    gate = Gate(3)
    assert gate.on_signal(0, Barrier(1)) == []
    assert gate.on_signal(2, Barrier(1)) == []
    assert gate.blocked == {0, 2}
    assert gate.on_signal(1, Barrier(1)) == [Barrier(1)]
    assert gate.blocked == frozenset()


def test_an_ended_channel_still_delivers_barriers() -> None:
    gate = Gate(2)
    assert gate.on_signal(0, Barrier(7)) == []
    assert gate.on_signal(1, Watermark(TIME_MAX)) == []
    assert gate.on_signal(1, EndOfInput()) == []
    assert gate.blocked == {0}
    assert gate.on_signal(1, Barrier(7)) == [Barrier(7)]
    assert gate.on_signal(0, Watermark(TIME_MAX)) == [Watermark(TIME_MAX)]
    assert gate.on_signal(0, EndOfInput()) == [EndOfInput()]
    assert gate.ended
    assert gate.on_signal(0, Barrier(8)) == []
    assert gate.on_signal(1, Barrier(8)) == [Barrier(8)]


def test_a_channel_cut_short_still_holds_time() -> None:
    gate = Gate(2)
    gate.on_signal(0, Watermark(5))
    gate.on_signal(0, EndOfInput())
    assert gate.on_signal(1, Watermark(50)) == [Watermark(5)]


def test_a_newer_barrier_gives_up_the_older_epoch() -> None:
    gate = Gate(2)
    gate.on_signal(0, Barrier(1))
    assert gate.on_signal(1, Barrier(2)) == []
    assert gate.blocked == {1}
    assert gate.on_signal(0, Barrier(2)) == [Barrier(2)]


def test_a_barrier_older_than_the_one_in_alignment_is_ignored() -> None:
    gate = Gate(2)
    gate.on_signal(0, Barrier(2))
    assert gate.on_signal(1, Barrier(1)) == []
    assert gate.blocked == {0}
    assert gate.on_signal(1, Barrier(2)) == [Barrier(2)]


def test_without_alignment_nothing_is_blocked_and_epochs_may_overlap() -> None:
    gate = Gate(2, aligned=False)
    assert gate.on_signal(0, Barrier(1)) == []
    assert gate.on_signal(0, Barrier(2)) == []
    assert gate.blocked == frozenset()
    assert gate.on_signal(1, Barrier(1)) == [Barrier(1)]
    assert gate.on_signal(1, Barrier(2)) == [Barrier(2)]


def test_without_alignment_only_so_many_epochs_are_kept() -> None:
    gate = Gate(2, aligned=False)
    for epoch in range(UNALIGNED_EPOCHS_MAX + 1):
        gate.on_signal(0, Barrier(epoch))
    assert gate.on_signal(1, Barrier(0)) == []
    assert gate.on_signal(1, Barrier(1)) == [Barrier(1)]


def test_what_cannot_be_is_refused() -> None:
    gate = Gate(2)
    gate.on_signal(0, Watermark(5))
    with pytest.raises(InternalError, match="went back"):
        gate.on_signal(0, Watermark(4))
    gate.on_signal(0, EndOfInput())
    with pytest.raises(InternalError, match="only barriers"):
        gate.on_signal(0, Watermark(9))
    with pytest.raises(InternalError, match="ended twice"):
        gate.on_signal(0, EndOfInput())
    gate.on_signal(0, Barrier(1))
    with pytest.raises(InternalError, match="is blocked"):
        gate.on_signal(0, Barrier(2))


@dataclass
class Model:
    """A gate that remembers everything that was ever delivered and derives all from that."""

    channels: int
    aligned: bool
    delivered: list[tuple[int, Signal]] = field(default_factory=list)
    passed_on: list[Signal] = field(default_factory=list)

    def barriers_of(self, channel: int) -> list[int]:
        return [each.epoch for by, each in self.delivered if by == channel and isinstance(each, Barrier)]

    def times_of(self, channel: int) -> list[int]:
        return [each.ts for by, each in self.delivered if by == channel and isinstance(each, Watermark)]

    @property
    def newest(self) -> int:
        """The epoch that forbids all older ones: any that was seen, or, without alignment, any that passed."""
        seen = [each for _, each in self.delivered] if self.aligned else self.passed_on
        return max((each.epoch for each in seen if isinstance(each, Barrier)), default=-1)

    @property
    def blocked(self) -> set[int]:
        if not self.aligned or self.newest < 0 or Barrier(self.newest) in self.passed_on:
            return set()
        return {channel for channel in range(self.channels) if self.newest in self.barriers_of(channel)}

    def on_signal(self, channel: int, signal: Signal) -> list[Signal]:
        everyone = range(self.channels)
        self.delivered.append((channel, signal))
        out: list[Signal] = []
        if isinstance(signal, Barrier):
            complete = all(signal.epoch in self.barriers_of(each) for each in everyone)
            if complete and signal.epoch >= self.newest:
                out = [signal]
        elif isinstance(signal, EndOfInput):
            ends = [by for by, each in self.delivered if isinstance(each, EndOfInput)]
            out = [signal] if len(ends) == self.channels else []
        else:
            low = min((self.times_of(each) or [TIME_MIN])[-1] for each in everyone)
            before = [each.ts for each in self.passed_on if isinstance(each, Watermark)]
            out = [Watermark(low)] if low > max(before, default=TIME_MIN) else []
        self.passed_on += out
        return out


@st.composite
def scripts(draw: st.DrawFn) -> list[Signal]:
    """What one channel delivers: growing time and epochs, of which some are missing, and barriers after the end."""
    epochs = sorted(draw(st.sets(st.integers(0, 6))))
    steps: list[Signal] = [Barrier(epoch) for epoch in epochs]
    end = draw(st.integers(0, len(steps)))
    time = 0
    before: list[Signal] = []
    for step in [*steps[:end], None]:
        for _ in range(draw(st.integers(0, 2))):
            time += draw(st.integers(0, 3))
            before.append(Watermark(time))
        before += [step] if step else []
    return [*before, EndOfInput(), *steps[end:]]


@given(st.lists(scripts(), min_size=1, max_size=4), st.booleans(), st.data())
@weighted(4)
def test_any_schedule_gives_what_the_model_gives(plan: list[list[Signal]], aligned: bool, data: st.DataObject) -> None:
    gate, model = Gate(len(plan), aligned=aligned), Model(len(plan), aligned)
    left = [list(script) for script in plan]
    while ready := [channel for channel, script in enumerate(left) if script and channel not in gate.blocked]:
        channel = data.draw(st.sampled_from(ready))
        signal = left[channel].pop(0)
        assert gate.on_signal(channel, signal) == model.on_signal(channel, signal)
        assert gate.blocked == model.blocked
    epochs = [each.epoch for each in model.passed_on if isinstance(each, Barrier)]
    assert epochs == sorted(set(epochs))
    newest = [max((each.epoch for each in script if isinstance(each, Barrier)), default=-1) for script in plan]
    if len(set(newest)) == 1 and newest[0] >= 0:
        assert epochs[-1] == newest[0], "an epoch that reaches every channel passes, whatever was given up before"
        assert not any(left)
        assert gate.ended
