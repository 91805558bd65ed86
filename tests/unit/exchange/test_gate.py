"""The gate: minimum of watermarks, aligned barriers, ends."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from headrace.core.signals import TIME_MAX, Barrier, EndOfInput, Signal, Watermark
from headrace.exchange.gate import Gate


def test_time_is_the_minimum_over_channels() -> None:
    gate = Gate(2)
    assert gate.on_signal(0, Watermark(10)) == []
    assert gate.on_signal(1, Watermark(4)) == [Watermark(4)]
    assert gate.on_signal(1, Watermark(20)) == [Watermark(10)]
    assert gate.on_signal(1, Watermark(30)) == []


def test_a_barrier_blocks_its_channel_until_all_have_it() -> None:
    gate = Gate(3)
    assert gate.on_signal(0, Barrier(1)) == []
    assert gate.on_signal(2, Barrier(1)) == []
    assert gate.blocked == {0, 2}
    assert gate.on_signal(1, Barrier(1)) == [Barrier(1)]
    assert gate.blocked == frozenset()


def test_an_ended_channel_is_not_waited_for() -> None:
    gate = Gate(2)
    assert gate.on_signal(0, Barrier(7)) == []
    assert gate.on_signal(1, Watermark(TIME_MAX)) == []
    assert gate.on_signal(1, EndOfInput()) == [Barrier(7)]
    assert gate.on_signal(0, Watermark(TIME_MAX)) == [Watermark(TIME_MAX)]
    assert gate.on_signal(0, EndOfInput()) == [EndOfInput()]
    assert gate.ended


def test_a_channel_cut_short_still_holds_time() -> None:
    gate = Gate(2)
    gate.on_signal(0, Watermark(5))
    gate.on_signal(0, EndOfInput())
    assert gate.on_signal(1, Watermark(50)) == [Watermark(5)]


@given(st.lists(st.lists(st.integers(0, 5), max_size=8), min_size=1, max_size=4), st.randoms(use_true_random=False))
@settings(deadline=None)
def test_any_interleaving_gives_growing_time_and_one_end(steps: list[list[int]], order: object) -> None:
    """Each channel sends growing watermarks, one barrier and its end; whatever the interleaving, the gate's time grows
    up to the lowest final watermark, the barrier comes out once, after all delivered it, and the end comes last."""
    scripts: list[list[Signal]] = []
    for increments in steps:
        total, script = 0, list[Signal]()
        for increment in increments:
            total += increment
            script.append(Watermark(total))
        script.insert(len(script) // 2, Barrier(1))
        scripts.append([*script, EndOfInput()])
    gate = Gate(len(scripts))
    out: list[Signal] = []
    while any(scripts):
        ready = [i for i, script in enumerate(scripts) if script and i not in gate.blocked]
        channel = order.choice(ready)  # type: ignore[attr-defined]
        out += gate.on_signal(channel, scripts[channel].pop(0))
    times = [signal.ts for signal in out if isinstance(signal, Watermark)]
    assert times == sorted(set(times))
    lowest = min(sum(increments) if increments else -1 for increments in steps)
    assert (times[-1] if times else -1) == lowest
    assert out.count(Barrier(1)) == 1
    assert out[-1] == EndOfInput()
