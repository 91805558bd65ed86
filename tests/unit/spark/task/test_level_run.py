"""Blobs of other tasks arrive in any order, and leave the inbox in their senders' order."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InternalError
from headrace.core.signals import TIME_MIN
from headrace.spark.levels.envelope import Envelope, Kind, encode_watermark
from headrace.spark.task.level_run import Channel, Inbox

CHANNELS = ((0, 0), (0, 1), (2, 0))


def rows(channel: Channel, number: int) -> Envelope:
    return Envelope(Kind.ROWS, 1, 0, f"{channel} {number}".encode(), channel[0], channel[1], number)


def trailer(channel: Channel, count: int, watermark: int = 7) -> Envelope:
    return Envelope(Kind.TRAILER, 1, 0, encode_watermark(watermark), channel[0], channel[1], count)


@given(
    counts=st.tuples(*[st.integers(0, 6)] * 3),
    watermarks=st.tuples(*[st.integers(-5, 5)] * 3),
    repeated=st.integers(0, 5),
    seed=st.integers(),
)
def test_any_order_is_put_in_order(
    counts: tuple[int, ...], watermarks: tuple[int, ...], repeated: int, seed: int
) -> None:
    blobs = [rows(channel, n) for channel, count in zip(CHANNELS, counts, strict=True) for n in range(count)]
    blobs += [trailer(*each) for each in zip(CHANNELS, counts, watermarks, strict=True)]
    draw = random.Random(seed)
    blobs += draw.sample(blobs, min(repeated, len(blobs)))
    draw.shuffle(blobs)
    inbox = Inbox(CHANNELS)
    payloads = [taken.payload for blob in blobs for taken in inbox.take(blob)]
    for channel, count in zip(CHANNELS, counts, strict=True):
        own = [payload for payload in payloads if payload.startswith(str(channel).encode())]
        assert own == [rows(channel, number).payload for number in range(count)]
    assert len(payloads) == sum(counts)
    assert inbox.watermark() == min(watermarks)


@pytest.mark.parametrize(
    "blobs",
    [
        [rows((0, 0), 0)],
        [trailer((0, 0), 1)],
        [rows((0, 0), 1), trailer((0, 0), 2)],
        [],
    ],
    ids=["no trailer", "no rows", "a gap", "nothing"],
)
def test_what_is_missing_is_an_error(blobs: list[Envelope]) -> None:
    inbox = Inbox([(0, 0)])
    for blob in blobs:
        list(inbox.take(blob))
    with pytest.raises(InternalError, match="sender 0 of edge 0"):
        inbox.watermark()


def test_a_task_that_reads_from_nobody_knows_no_time() -> None:
    assert Inbox([]).watermark() == TIME_MIN
