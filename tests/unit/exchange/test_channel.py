"""The mailbox: order, merging, bounds, cancellation."""

from __future__ import annotations

import threading

import polars as pl
import pytest

from headrace.core.signals import EndOfInput, Watermark
from headrace.exchange.channel import Cancelled, ChannelBounds, Mailbox


def rows(*values: int) -> pl.DataFrame:
    return pl.DataFrame({"a": values}, schema={"a": pl.Int64})


def mailbox(channels: int = 1, rows_max: int = 100, merge: int = 1_000) -> Mailbox:
    return Mailbox(channels, ChannelBounds(rows_max=rows_max), merge_rows_max=merge)


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
    assert sent.wait(10)
    sender.join()
    assert box.rows_queued_max == 3


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
        except Cancelled:
            woken.append("sender")

    sender = threading.Thread(target=send)
    sender.start()
    box.cancel()
    sender.join(10)
    assert woken == ["sender"]
    with pytest.raises(Cancelled):
        box.take()
