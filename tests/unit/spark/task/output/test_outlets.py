from __future__ import annotations

from collections import deque

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.signals import TIME_MIN, Barrier, EndOfInput, Watermark
from headrace.operators.chain import MAIN
from headrace.spark.levels.envelope import Envelope, Kind, decode_rows, decode_watermark
from headrace.spark.levels.levels import levels_of
from headrace.spark.task.output.outlets import BlobOutlet, outgoing
from unit.spark.plans import COUNT, plan_of


def outlet(ready: deque[Envelope]) -> BlobOutlet:
    return BlobOutlet(ready, edge=3, sender=2, level=1, partition=5)


def read(ready: deque[Envelope]) -> tuple[list[int], list[int], int]:
    """Values in order, rows of each blob, watermark."""
    *blobs, last = ready
    assert [blob.kind for blob in blobs] == [Kind.ROWS] * len(blobs)
    assert last.kind is Kind.TRAILER
    assert [blob.number for blob in ready] == [*range(len(blobs)), len(blobs)]
    assert {(blob.edge, blob.sender, blob.level, blob.partition) for blob in ready} == {(3, 2, 1, 5)}
    frames = [decode_rows(blob.payload) for blob in blobs]
    return [v for frame in frames for v in frame["v"]], [f.height for f in frames], decode_watermark(last.payload)


@given(sizes=st.lists(st.integers(1, 30), max_size=12), bound=st.integers(1, 40))
def test_rows_keep_their_order_in_blobs_of_a_worthwhile_size(sizes: list[int], bound: int) -> None:
    ready: deque[Envelope] = deque()
    end, begin = outlet(ready), 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("headrace.spark.task.output.outlets.BLOB_ROWS", bound)
        for size in sizes:
            end.put(pl.DataFrame({"v": range(begin, begin + size)}))
            begin += size
        end.finish()
    values, heights, watermark = read(ready)
    assert values == list(range(begin))
    assert all(height >= bound for height in heights[:-1])
    assert watermark == TIME_MIN


def test_signals_cut_nothing_and_the_last_time_is_in_the_trailer() -> None:
    ready: deque[Envelope] = deque()
    end = outlet(ready)
    for element in (Watermark(3), pl.DataFrame({"v": [1]}), Watermark(9), Barrier(1), pl.DataFrame({"v": [2]})):
        end.put(element)
    end.put(EndOfInput())
    end.finish()
    assert read(ready) == ([1, 2], [2], 9)
    assert end.waited_ms == 0


@pytest.mark.parametrize("spread", ["rebalance", "rescale"])
def test_what_only_spreads_load_goes_to_one_target_and_time_to_all(spread: str) -> None:
    steps = {
        "spread": {"from": "one", "filter": "id >= 0", "partition": spread},
        "counts": {"from": "spread", **COUNT},
    }
    plan = plan_of(steps, "counts")
    levels = levels_of(plan, {"one": 4, "two": 1})
    for sender in range(4):
        ready: deque[Envelope] = deque()
        made = outgoing(plan, levels, "one", sender, ready=ready, counters={})
        (end,) = made.ends["one", MAIN]
        for _ in range(3):
            columns = {"id": [1, 2], "key": ["a", "b"], "__ts": [1, 2], "__wm": [0, 0]}
            end.on_batch(pl.DataFrame(columns, schema_overrides={"__ts": pl.Int64, "__wm": pl.Int64}))
        end.on_signal(Watermark(5))
        for each in made.outlets:
            each.finish()
        width = levels.stations["spread"].width
        assert [blob.partition for blob in ready if blob.kind is Kind.ROWS] == [sender % width]
        trailers = [blob for blob in ready if blob.kind is Kind.TRAILER]
        assert sorted(blob.partition for blob in trailers) == list(range(width))
        assert {decode_watermark(blob.payload) for blob in trailers} == {5}
