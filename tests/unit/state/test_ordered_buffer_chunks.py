"""Chunks of the ordered buffer: what a snapshot writes again, what they hold, and what a restore makes of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import polars as pl
import pytest

from headrace.core.batch import OP, ORDER_SCHEMA, TS, WM
from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.state import ordered_buffer
from headrace.state.ordered_buffer import ROWS_SEALED_MIN, SEALS_SEARCHED, SMALL_CHUNKS_MAX, OrderedBuffer
from headrace.state.ordered_rows import INPUT
from headrace.state.parquet import read_row_groups, write_chunks
from headrace.state.row_groups import KeyOrder
from headrace.state.snapshot import Chunk, RestoredFrame, StateSnapshot

COLUMNS: dict[str, pl.DataType] = {"key": pl.String(), TS: pl.Int64(), **ORDER_SCHEMA}
FAR = 250_000_000_000_000


def opened(
    keys: Sequence[str] = ("key",), columns: Mapping[str, pl.DataType] | None = None, lateness_ms: int = 0
) -> OrderedBuffer:
    return OrderedBuffer(
        "waiting", keys, columns=COLUMNS if columns is None else columns, lateness_ms=lateness_ms, max_parallelism=128
    )


def rows_at(times: Sequence[int] | np.ndarray, keys: Sequence[str | None] = ("a",)) -> pl.DataFrame:
    count = len(times)
    return pl.DataFrame(
        {
            "key": [keys[number % len(keys)] for number in range(count)],
            TS: times,
            "__o_node": ["orders"] * count,
            "__o_text": ["topic"] * count,
            "__o_major": [0] * count,
            "__o_minor": range(count),
            "__o_index": [0] * count,
        },
        schema=COLUMNS,
    )


def spread(count: int, times: int) -> pl.DataFrame:
    """Rows at random times from 0 on."""
    return rows_at(np.random.default_rng(1).integers(0, times, count), [f"key {number}" for number in range(97)])


def chunks(buffer: OrderedBuffer) -> dict[int, pl.DataFrame]:
    return {chunk.id: chunk.frame for chunk in buffer.snapshot()[0].chunks}


def written(before: Mapping[int, pl.DataFrame], after: Mapping[int, pl.DataFrame]) -> int:
    return sum(rows.height for number, rows in after.items() if number not in before)


def all_of(buffer: OrderedBuffer, watermark: int = TIME_MAX) -> pl.DataFrame:
    return pl.concat(buffer.due(watermark))


def first_ms(rows: pl.DataFrame) -> int:
    return int(rows[TS].to_numpy().min())


def last_ms(rows: pl.DataFrame) -> int:
    return int(rows[TS].to_numpy().max())


def restored(states: Sequence[Sequence[StateSnapshot]], *, lateness_ms: int) -> OrderedBuffer:
    buffer = opened(lateness_ms=lateness_ms)
    frames: dict[str, list[RestoredFrame]] = {}
    for state in (state for own in states for state in own):
        frames.setdefault(state.name, []).extend(RestoredFrame(chunk.frame) for chunk in state.chunks)
    buffer.restore(frames)
    return buffer


def test_a_cut_changes_the_chunks_of_its_bucket_only() -> None:
    buffer = opened()
    buffer.put(spread(20_000, 60_000), 0)
    first = chunks(buffer)
    assert sum(rows.height for rows in first.values()) == 20_000
    assert 8 <= len(first) <= 16, "as many buckets as rows of a seal are divided into"
    assert chunks(buffer) == first, "nothing is written again without a change"
    released = sum(rows.height for rows in buffer.due(30_000))
    second = chunks(buffer)
    assert sum(rows.height for rows in second.values()) == buffer.rows == 20_000 - released
    gone = [rows for number, rows in first.items() if number not in second]
    assert all(first_ms(rows) <= 30_000 for rows in gone)
    whole = [rows for rows in gone if last_ms(rows) <= 30_000]
    assert len(gone) - len(whole) <= 1, "a release ends in one bucket"
    assert written(first, second) <= max(rows.height for rows in first.values())
    assert {number for number, rows in first.items() if first_ms(rows) > 30_000} == first.keys() & second.keys()


def test_rows_that_leave_between_snapshots_are_in_none() -> None:
    buffer = opened()
    for begin in range(0, 50_000, 5_000):
        buffer.put(rows_at(range(begin, begin + 5_000)), 0)
        assert sum(rows.height for rows in buffer.due(begin + 4_999)) == 5_000
    assert chunks(buffer) == {}
    assert (buffer.rows, buffer.bytes) == (0, 0)


def test_a_bucket_that_is_expensive_to_cut_is_divided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_buffer, "ROWS_REWRITTEN_MAX", 500)
    monkeypatch.setattr(ordered_buffer, "ROWS_PIECE_MIN", 64)
    buffer = opened()
    buffer.put(spread(ROWS_SEALED_MIN, 1 << 16), 0)
    states, costs = [chunks(buffer)], []
    for watermark in range(100, 1_500, 100):
        released = all_of(buffer, watermark)
        assert last_ms(released) <= watermark
        states.append(chunks(buffer))
        costs.append(written(states[-2], states[-1]))
        buffer.put(rows_at([FAR + watermark]), 0)
    assert costs[0] > 500, "a wide bucket is cut"
    assert costs[1] > 500, "it is divided after the snapshot, and written once more"
    assert max(costs[2:]) < 300, "from then on parts of it are cut"
    assert sum(rows.height for rows in states[-1].values()) + 1 == buffer.rows


@pytest.mark.parametrize("times", [7, 1 << 40])
def test_small_chunks_are_sealed_together(times: int) -> None:
    buffer = opened()
    before: dict[int, pl.DataFrame] = {}
    count = total = 0
    for number in range(200):
        buffer.put(rows_at([number * 1_000 % times]), 0)
        after = chunks(buffer)
        count, total, before = max(count, len(after)), total + written(before, after), after
    assert count <= SMALL_CHUNKS_MAX + 2 * SEALS_SEARCHED
    assert total < 200 * 8, "rows are written a few times, and not with each snapshot"
    assert all_of(buffer).height == 200


def test_few_rows_at_distant_times_do_not_widen_buckets() -> None:
    buffer = opened()
    buffer.put(pl.concat([spread(20_000, 16_000), rows_at([-FAR, FAR, FAR + 1])]), 0)
    spans = sorted(last_ms(rows) - first_ms(rows) for rows in chunks(buffer).values())
    assert len(spans) >= 6
    assert spans[-1] < 4_096


def test_rows_that_wait_do_not_keep_those_that_have_left() -> None:
    buffer = opened()
    count = ordered_buffer.ROWS_RECENT_MAX
    texts = [f"{number:09d}" * 5 for number in range(count)]
    for number in range(8):
        begin = number * count
        buffer.put(rows_at([*range(begin, begin + count), FAR + number], [*texts, "a key that waits on"]), 0)
        assert all_of(buffer, begin + count - 1).height == count
    waiting = chunks(buffer).values()
    assert sum(rows.height for rows in waiting) == buffer.rows == 8
    held = [rows["key"].to_arrow(compat_level=pl.CompatLevel.newest()).buffers() for rows in waiting]
    sizes = [sum(data.size for data in buffers if data is not None) for buffers in held]
    assert sum(size > 1_000_000 for size in sizes) <= 4, "as many seals share memory"


def test_the_watermark_is_the_least_of_all_subtasks() -> None:
    states = []
    for watermark in (10, 8):
        buffer = opened(lateness_ms=5)
        buffer.put(rows_at([20]), 0)
        assert list(buffer.due(watermark)) == []
        states.append(buffer.snapshot())
    again = restored(states, lateness_ms=5)
    assert (again.watermark, again.rows) == (8, 2)
    with pytest.raises(AssertionError, match="a row at 3 ms comes after the release of 3 ms"):
        again.put(rows_at([3]), 0)
    assert not again.put(rows_at([4]), 0).height
    assert all_of(again, 25)[TS].to_list() == [4, 20, 20]


def test_time_starts_anew_after_the_end_of_the_input() -> None:
    buffer = opened(lateness_ms=5)
    assert buffer.watermark == TIME_MIN
    buffer.put(rows_at([1]), 0)
    assert all_of(buffer, TIME_MAX)[TS].to_list() == [1], "lateness does not hold rows back at the end"
    again = restored([buffer.snapshot()], lateness_ms=5)
    assert (again.watermark, again.rows) == (TIME_MIN, 0)
    again.put(rows_at([0]), 0)
    assert again.rows == 1


def test_a_watermark_that_stands_is_not_written_again() -> None:
    buffer = opened()
    _, first = buffer.snapshot()
    assert list(buffer.due(5)) == []
    _, second = buffer.snapshot()
    assert list(buffer.due(4)) == []
    _, third = buffer.snapshot()
    assert [state.chunks[0].id for state in (first, second, third)] == [0, 1, 1]
    assert third.chunks[0].frame.item() == 5


def test_late_rows_come_back_as_they_are() -> None:
    rows = rows_at([1, 2, 3]).with_columns(pl.Series(WM, [0, 2, 1]), pl.lit(7).alias("other"))
    buffer = opened()
    late = buffer.put(rows, 0)
    assert late.equals(rows[1:2])
    assert all_of(buffer).columns == [*COLUMNS, INPUT], "rows that were released have no watermark: they are made"


def test_rows_without_a_key_are_in_one_order() -> None:
    buffer = opened(keys=())
    buffer.put(rows_at([5, 1, 3], ["b", "c", "a"]), 1)
    buffer.put(rows_at([5], ["z"]), 0)
    assert all_of(buffer).select("key", INPUT).rows() == [("c", 1), ("a", 1), ("z", 0), ("b", 1)]


def test_deletes_and_rows_of_other_inputs() -> None:
    buffer = opened(columns={**COLUMNS, OP: pl.Boolean()})
    buffer.put(rows_at([1, 2]).with_columns(pl.Series(OP, [False, True])), 0)
    buffer.put(rows_at([3]), 1)
    assert all_of(buffer)[OP].to_list() == [False, True, False]


def test_a_key_of_a_megabyte() -> None:
    keys = [None, "", "x" * (1 << 20), "y" * (1 << 20)]
    buffer = opened()
    buffer.put(rows_at([3, 3, 3, 3, 2, 2, 2, 2], keys), 0)
    order = KeyOrder(("key",), 128)
    states = {
        state.name: [
            RestoredFrame(rows)
            for file in write_chunks(state.chunks, order if state.keys else None)
            for rows in read_row_groups(file.data)
        ]
        for state in buffer.snapshot()
    }
    again = opened()
    again.restore(states)
    released = all_of(again)
    found = released["key"].to_list()
    assert set(found) == set(keys)
    assert found == [key for key in found[::2] for _ in range(2)]
    assert released[TS].to_list() == [2, 3] * 4


def test_rows_have_a_time() -> None:
    with pytest.raises(AssertionError, match="have an event time"):
        opened().put(rows_at([1]).with_columns(pl.lit(None, dtype=pl.Int64).alias(TS)), 0)


def test_chunks_have_each_number_once() -> None:
    buffer = opened()
    buffer.put(spread(ROWS_SEALED_MIN, 99), 0)
    buffer.put(spread(10, 99), 1)
    state, time = buffer.snapshot()
    assert len({chunk.id for chunk in state.chunks}) == len(state.chunks) > 2
    assert (state.name, state.keys, time.name) == ("waiting", ("key",), "waiting_time")
    assert isinstance(state.chunks[0], Chunk)
