"""The mailbox: order, merging, bounds, cancellation."""

from __future__ import annotations

import threading

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.signals import TIME_MIN, Barrier, Element, EndOfInput, Watermark
from headrace.exchange.edge.adaptive_bounds import ROWS_LEAST
from headrace.exchange.mailbox import ChannelBounds, Mailbox, TaskCancelledError
from support.processes.running import WAIT_SECONDS, wait_until
from support.suite.properties import weighted


def rows(*values: int) -> pl.DataFrame:
    return pl.DataFrame({"a": values}, schema={"a": pl.Int64})


def mailbox(channels: int = 1, rows_max: int = 100, merge: int = 1_000, *, aligned: bool = True) -> Mailbox:
    return Mailbox((0,) * channels, ChannelBounds(rows_max=rows_max), merge_rows_max=merge, aligned=aligned)


def values(element: object) -> list[int]:
    assert isinstance(element, pl.DataFrame)
    return element.get_column("a").to_list()


def test_batches_between_two_signals_are_merged() -> None:
    box = mailbox()
    box.put(0, rows(1, 2))
    box.put(0, rows(3))
    box.put(0, Watermark(9))
    box.put(0, rows(4))
    assert values(box.take()[0]) == [1, 2, 3]
    assert values_or_signals(box) == [Watermark(9)]
    assert values(box.take()[0]) == [4]


def values_or_signals(box: Mailbox) -> list[object]:
    return list(box.take())


def test_merging_stops_at_its_limit() -> None:
    box = mailbox(merge=2)
    for value in range(4):
        box.put(0, rows(value))
    assert values(box.take()[0]) == [0, 1]
    assert values(box.take()[0]) == [2, 3]


def test_a_full_channel_blocks_its_sender_until_rows_are_taken() -> None:
    box = mailbox(rows_max=3, merge=1)
    box.put(0, rows(1, 2, 3))
    sent = threading.Event()

    def send() -> None:
        box.put(0, rows(4))
        sent.set()

    sender = threading.Thread(target=send)
    sender.start()
    assert box.rows_queued == 3
    assert values(box.take()[0]) == [1, 2, 3]
    assert sent.wait(WAIT_SECONDS)
    sender.join()
    assert box.rows_queued_max == 3
    assert box.waited_ms(0) >= 0


def test_signals_need_no_room() -> None:
    box = mailbox(rows_max=1)
    box.put(0, rows(1))
    box.put(0, Watermark(1))
    box.put(0, EndOfInput())
    box.take()
    assert values_or_signals(box) == [Watermark(1)]
    assert values_or_signals(box) == [EndOfInput()]


def test_time_that_passes_over_a_reader_that_is_held_up_piles_up_nothing() -> None:
    box = mailbox()
    box.put(0, rows(1))
    for ts in range(100):
        box.put(0, Watermark(ts))
    box.put(0, rows(2))
    box.put(0, Watermark(200))
    assert values(box.take()[0]) == [1]
    assert values_or_signals(box) == [Watermark(99)]
    assert values(box.take()[0]) == [2]
    assert values_or_signals(box) == [Watermark(200)]


def test_cancel_wakes_senders_and_the_reader() -> None:
    box = mailbox(rows_max=1)
    box.put(0, rows(1))
    woken: list[str] = []

    def send() -> None:
        try:
            box.put(0, rows(2))
        except TaskCancelledError:
            woken.append("sender")

    sender = threading.Thread(target=send)
    sender.start()
    box.cancel()
    sender.join(WAIT_SECONDS)
    assert woken == ["sender"]
    with pytest.raises(TaskCancelledError):
        box.take()


def test_a_waiting_sender_can_be_seen_waiting() -> None:
    box = mailbox(rows_max=1)
    box.put(0, rows(1))
    sender = threading.Thread(target=lambda: box.put(0, rows(2)))
    sender.start()
    wait_until(lambda: box.waited_ms(0) > 0, "nobody waits")
    box.take()
    sender.join(WAIT_SECONDS)
    waited_ms = box.waited_ms(0)
    assert waited_ms > 0
    assert box.waited_ms(0) == waited_ms


def test_a_signal_is_not_held_up_by_rows_of_another_channel() -> None:
    box = mailbox(channels=2, merge=1)
    box.put(0, Watermark(10))
    box.put(1, Watermark(5))
    box.put(1, rows(-1))
    taken: list[object] = []
    for value in range(6):
        box.put(0, rows(value))
        taken += box.take()
    assert Watermark(5) in taken
    assert box.watermark == 5
    assert -1 in [value for each in taken if isinstance(each, pl.DataFrame) for value in values(each)]


def test_a_barrier_blocks_its_channel_while_another_has_rows_without_end() -> None:
    box = mailbox(channels=2, merge=1)
    box.put(0, rows(0))
    box.put(1, Barrier(1))
    box.put(1, rows(-1))
    for value in range(1, 8):
        box.put(0, rows(value))
        assert values(box.take()[0]) == [value - 1], "what is behind the barrier waits"
    box.put(0, Barrier(1))
    assert values(box.take()[0]) == [7]
    assert box.take() == [Barrier(1)]
    assert values(box.take()[0]) == [-1]


def test_rows_are_not_held_up_by_signals_of_another_channel() -> None:
    box = mailbox(channels=2)
    box.put(1, Watermark(1_000))
    box.put(1, rows(1))
    taken: list[object] = []
    for ts in range(3):
        box.put(0, Watermark(ts))
        taken += box.take()
    assert any(isinstance(each, pl.DataFrame) for each in taken)


def test_channels_take_turns() -> None:
    box = mailbox(channels=3, merge=1)
    for round_ in range(4):
        for channel in range(3):
            box.put(channel, rows(10 * channel + round_))
    order = [values(box.take()[0])[0] // 10 for _ in range(12)]
    assert sorted(order[:3]) == sorted(order[3:6]) == [0, 1, 2]


def test_without_alignment_rows_behind_a_barrier_are_read() -> None:
    box = mailbox(channels=2, aligned=False)
    box.put(0, Barrier(1))
    box.put(0, rows(1))
    assert values(box.take()[0]) == [1]
    box.put(1, Barrier(1))
    assert box.take() == [Barrier(1)]


def test_wake_makes_take_give_nothing_once() -> None:
    box = mailbox()
    box.wake()
    assert box.take() == []
    box.put(0, rows(1))
    box.wake()
    assert values(box.take()[0]) == [1]
    assert box.take() == []


def test_a_batch_larger_than_the_bound_goes_in_pieces() -> None:
    box = mailbox(rows_max=ROWS_LEAST, merge=1)
    sender = threading.Thread(target=lambda: box.put(0, rows(*range(1_000))))
    sender.start()
    taken: list[int] = []
    while len(taken) < 1_000:
        taken += values(box.take()[0])
    sender.join(WAIT_SECONDS)
    assert taken == list(range(1_000))
    assert box.rows_queued_max <= 2 * ROWS_LEAST


def test_a_remote_channel_never_waits_and_tells_what_was_taken() -> None:
    box = mailbox(channels=2, rows_max=2, merge=3)
    told: list[tuple[int, int]] = []

    def on_drained(count: int, size: int, bounds: ChannelBounds) -> None:
        assert box.rows_queued >= 0, "the lock is not held"
        assert bounds.rows_max == 2
        told.append((count, size))

    assert box.feed_remotely(0, on_drained).rows_max == 2
    for value in range(5):
        box.put(0, rows(value), 100)
    box.put(0, Watermark(1))
    assert told == []
    assert values(box.take()[0]) == [0, 1, 2]
    assert told == [(3, 300)]
    box.take()
    assert told == [(3, 300), (2, 200)]
    with pytest.raises(AssertionError, match="fed twice"):
        box.feed_remotely(0, on_drained)


@given(
    st.lists(
        st.lists(st.one_of(st.integers(1, 5), st.just("time"), st.just("barrier")), max_size=12), min_size=1, max_size=3
    ),
    st.integers(1, 6),
    st.booleans(),
    st.data(),
)
@weighted(2)
def test_whatever_the_schedule_each_channel_keeps_its_order(
    plan: list[list[int | str]], merge: int, aligned: bool, data: st.DataObject
) -> None:
    """Rows come out in their channel's order, behind a barrier exactly what was sent behind it, and all of them."""
    box = mailbox(len(plan), rows_max=10_000, merge=merge, aligned=aligned)
    epochs = min(script.count("barrier") for script in plan)
    left = [_elements(channel, script, epochs) for channel, script in enumerate(plan)]
    sent = [[value for each in script if isinstance(each, pl.DataFrame) for value in values(each)] for script in left]
    before = [_rows_before_barriers(script) for script in left]
    taken: list[list[int]] = [[] for _ in plan]
    passed: list[object] = []

    def take() -> None:
        box.wake()
        for element in box.take():
            if not isinstance(element, pl.DataFrame):
                passed.append(element)
                if isinstance(element, Barrier) and aligned:
                    assert [len(each) for each in taken] == [counts[element.epoch] for counts in before]
                continue
            for value in values(element):
                taken[value // 1_000].append(value)

    while ready := [channel for channel, script in enumerate(left) if script]:
        channel = data.draw(st.sampled_from(ready))
        box.put(channel, left[channel].pop(0))
        if data.draw(st.booleans()):
            take()
    while EndOfInput() not in passed:
        take()
    assert taken == sent
    assert [each for each in passed if isinstance(each, Barrier)] == [Barrier(epoch) for epoch in range(epochs)]
    assert box.watermark >= TIME_MIN


def _elements(channel: int, script: list[int | str], epochs: int) -> list[Element]:
    """What a script stands for: row counts, times and barriers, and the end."""
    elements: list[Element] = []
    value = epoch = 0
    for time, step in enumerate(script):
        if isinstance(step, int):
            elements.append(rows(*range(1_000 * channel + value, 1_000 * channel + value + step)))
            value += step
        elif step == "time":
            elements.append(Watermark(time))
        elif epoch < epochs:
            elements.append(Barrier(epoch))
            epoch += 1
    return [*elements, EndOfInput()]


def _rows_before_barriers(script: list[Element]) -> list[int]:
    counts: list[int] = []
    rows_so_far = 0
    for each in script:
        if isinstance(each, pl.DataFrame):
            rows_so_far += each.height
        elif isinstance(each, Barrier):
            counts.append(rows_so_far)
    return counts


class SteppedTime:
    """The clock of `headrace.exchange.mailbox`, which only the test moves."""

    def __init__(self) -> None:
        self.now_s = 100.0

    def monotonic(self) -> float:
        return self.now_s


def test_an_alignment_lasts_from_the_first_barrier_to_the_last(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteppedTime()
    monkeypatch.setattr("headrace.exchange.mailbox.time", clock)
    box = mailbox(2)
    box.put(0, Barrier(1))
    box.put(1, rows(1))
    assert values(box.take()[0]) == [1]
    # the first barrier is seen with the next look at signals
    box.put(1, rows(2))
    box.take()
    clock.now_s += 0.25
    box.put(1, Barrier(1))
    assert values_or_signals(box) == [Barrier(1)]
    assert box.aligned_ms == 250

    for channel in (0, 1):
        box.put(channel, Barrier(2))
    assert values_or_signals(box) == [Barrier(2)]
    assert box.aligned_ms == 0


def test_an_aborted_alignment_is_not_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = SteppedTime()
    monkeypatch.setattr("headrace.exchange.mailbox.time", clock)
    box = mailbox(2)
    box.put(0, Barrier(1))
    for value in range(3):
        box.put(1, rows(value))
        box.take()
    clock.now_s += 60.0
    # epoch 1 is given up: channel 1 never delivers its barrier
    box.put(1, Barrier(2))
    box.put(0, Barrier(2))
    assert values_or_signals(box) == [Barrier(2)]
    assert box.aligned_ms == 0


def test_bytes_that_were_taken_are_counted_as_their_senders_count_them() -> None:
    box = mailbox(2)
    box.put(0, rows(1, 2), 160)
    box.put(1, rows(3), 80)
    box.put(1, rows(4), 80)
    assert len(box.take()[0]) == 4  # type: ignore[arg-type]
    assert box.bytes_taken == 320


# ---- several inputs --------------------------------------------------------------------------------------------------


def of_inputs(*inputs: int, merge: int = 1_000) -> Mailbox:
    """A mailbox whose channels belong to these inputs."""
    return Mailbox(inputs, ChannelBounds(rows_max=10_000), merge_rows_max=merge)


def test_a_batch_holds_all_queued_rows_of_one_input_and_none_of_another() -> None:
    box = of_inputs(0, 1, 0)
    for value in range(3):
        for channel in range(3):
            box.put(channel, rows(channel * 10 + value))
    assert values(box.take()[0]) == [0, 1, 2, 20, 21, 22]
    assert box.input_taken == 0
    assert values(box.take()[0]) == [10, 11, 12]
    assert box.input_taken == 1


def test_inputs_take_turns_at_the_merge_limit() -> None:
    box = of_inputs(0, 1, merge=1)
    for value in range(3):
        box.put(0, rows(value))
        box.put(1, rows(10 + value))
    taken = [(box.input_taken, *values(element)) for _ in range(6) for element in box.take()]
    assert sorted(taken) == [(0, 0), (0, 1), (0, 2), (1, 10), (1, 11), (1, 12)]
    assert [number for number, _ in taken] == [0, 1, 0, 1, 0, 1]


def test_the_input_with_the_lowest_channel_holds_time_back() -> None:
    box = of_inputs(0, 1, 1)
    for channel, time in ((0, 9), (1, 5), (2, 7)):
        box.put(channel, Watermark(time))
    assert box.take() == [Watermark(5)]
    assert box.waits_for_input == 1
    box.put(1, Watermark(20))
    box.put(2, Watermark(20))
    assert box.take() == [Watermark(7)]
    assert box.take() == [Watermark(9)]
    assert box.waits_for_input == 0
    assert of_inputs(3, 3).waits_for_input is None


@weighted(0.5)
@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=5),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), max_size=60),
    st.integers(1, 5),
)
def test_batches_have_their_numbers_and_barriers_align_over_inputs(
    inputs: list[int], sent: list[tuple[int, int]], merge: int
) -> None:
    """Any interleaving: kind 0 is a barrier, 1 a watermark, others are rows; `take` is called in between."""
    box = of_inputs(*inputs, merge=merge)
    epochs, times, counts = ([0] * len(inputs) for _ in range(3))
    before: dict[int, set[tuple[int, int]]] = {}
    everything: set[tuple[int, int]] = set()
    taken: list[tuple[int, int]] = []
    passed: list[int] = []

    def take() -> None:
        box.wake()
        for element in box.take():
            if isinstance(element, pl.DataFrame):
                read = [divmod(value, 1_000) for value in values(element)]
                assert {inputs[channel] for channel, _ in read} == {box.input_taken}
                taken.extend(read)
            elif isinstance(element, Barrier):
                passed.append(element.epoch)
                assert set(taken) == before[element.epoch]

    def send(channel: int, kind: int) -> None:
        if kind == 0:
            epochs[channel] += 1
            mine = {place for place in everything if place[0] == channel}
            before.setdefault(epochs[channel], set()).update(mine)
            box.put(channel, Barrier(epochs[channel]))
        elif kind == 1:
            times[channel] += 1
            box.put(channel, Watermark(times[channel]))
        else:
            everything.add((channel, counts[channel]))
            box.put(channel, rows(channel * 1_000 + counts[channel]))
            counts[channel] += 1

    for channel, kind in sent:
        send(channel % len(inputs), kind)
        if kind == 5:
            take()
    last = max(epochs) + 1
    for channel in range(len(inputs)):
        while epochs[channel] < last:
            send(channel, 0)
    while last not in passed:
        take()
    assert passed == list(range(1, last + 1))
    assert set(taken) == everything
    for channel in range(len(inputs)):
        own = [count for place, count in taken if place == channel]
        assert own == sorted(own)
