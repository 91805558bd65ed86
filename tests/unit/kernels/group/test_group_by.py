"""The group-by kernel against polars and exact numbers, at its limits, and in memory that ends at an unreadable page.

`fuzz/group_by` compares both for as long as one wants.
"""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Mapping
from operator import add
from random import Random
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.kernels.group.group_by import Action, Aggregate, Grouping, GroupTable, KeyColumn, add_placed
from support.kernels.group_frames import Group, expected_groups, found_groups, in_pieces, random_frame
from support.kernels.guarded import Guarded, guarded_copy

COUNTED = Grouping((KeyColumn("k", pl.Int64()),), (Aggregate(Action.COUNT_ROWS, "n"),))
TEXTS = Grouping((KeyColumn("k", pl.String()),), (Aggregate(Action.COUNT_ROWS, "n"),))


@given(st.integers(0, 2**32), st.sampled_from([0, 1, 5, 300, 1500]))
def test_groups_are_those_of_polars(seed: int, rows: int) -> None:
    random = Random(seed)
    frame, grouping = random_frame(random, rows)
    table = GroupTable(grouping)
    for _ in range(2):  # an emptied table is as new
        for piece in in_pieces(random, frame):
            table.add(piece)
        assert table.rows == rows
        assert found_groups(table.take(), grouping) == expected_groups(frame, grouping)
    assert table.take() == []


@given(st.integers(0, 2**32))
def test_rows_are_placed_by_their_times(seed: int) -> None:
    random = Random(seed)
    frame, grouping = random_frame(random, 700)
    panes = [(GroupTable(grouping), begin, begin + 15) for begin in (0, 15, 30, 45)]
    for piece in in_pieces(random, frame):
        add_placed(piece, "__ts", panes)
    for table, begin, end in panes:
        inside = frame.filter(pl.col("__ts").is_between(begin, end, closed="left"))
        assert found_groups(table.take(), grouping) == expected_groups(inside, grouping)


@given(st.integers(0, 2**32))
def test_chosen_groups_are_returned_in_the_order_asked(seed: int) -> None:
    random = Random(seed)
    frame, grouping = random_frame(random, 400)
    table = GroupTable(grouping)
    numbers = [made for piece in in_pieces(random, frame) if (made := table.add_numbered(piece)) is not None]
    by_row = np.concatenate(numbers)
    keys = [key.name for key in grouping.keys]
    chosen = np.array(random.choices(by_row.tolist(), k=random.choice([0, 1, 9, 500])), dtype=np.uint32)
    rows = [int(np.argmax(by_row == number)) for number in chosen]
    assert table.groups_of(chosen).select(keys).rows() == (frame.select(keys)[rows].rows() if keys else [])
    distinct = np.unique(chosen)
    found = found_groups([table.groups_of(distinct)], grouping)
    expected = expected_groups(frame, grouping)
    assert found == {key: expected[key] for key in found}
    assert len(found) == len(distinct)
    assert found_groups(table.take(), grouping) == expected


def test_groups_come_in_the_order_of_their_first_rows() -> None:
    frame = pl.DataFrame({"k": [7, None, 3, 7, 9, 3, None]})
    table = GroupTable(COUNTED)
    table.add(frame)
    (found,) = table.take()
    assert found.rows() == [(7, 2), (None, 2), (3, 2), (9, 1)]


def test_a_column_that_is_absent_adds_nothing() -> None:
    extreme = Aggregate(Action.MIN, "least", "v", pl.Int64())
    table = GroupTable(Grouping(COUNTED.keys, (*COUNTED.aggregates, extreme)))
    table.add(pl.DataFrame({"k": [1, 2]}))
    table.add(pl.DataFrame({"k": [2], "v": [5]}))
    assert table.take()[0].rows() == [(1, 1, None), (2, 2, 5)]


def test_columns_without_a_type_are_refused() -> None:
    table = GroupTable(Grouping(COUNTED.keys, (Aggregate(Action.COUNT, "n", "v", pl.Null()),)))
    with pytest.raises(AssertionError, match="does not have the input columns"):
        table.add(pl.DataFrame({"k": [1], "v": [None]}))
    assert table.rows == 0


def test_many_groups_grow_the_table() -> None:
    keys = np.random.default_rng(3).permutation(200_000)
    table = GroupTable(COUNTED)
    for piece in pl.DataFrame({"k": keys}).iter_slices(32_768):
        table.add(piece)
    assert table.groups == 200_000
    assert table.size_bytes > 200_000 * 16
    (found,) = table.take()
    assert found["k"].to_numpy().tolist() == keys.tolist()
    assert found["n"].unique().to_list() == [1]
    table.add(pl.DataFrame({"k": [1, 1]}))
    assert table.take()[0].rows() == [(1, 2)]


def test_limbs_are_carried_when_they_leave_their_columns() -> None:
    aggregate = Aggregate(Action.LIMBS, "s", "v", pl.Float64())
    table = GroupTable(Grouping(COUNTED.keys, (aggregate,)))
    rows = 1 << 16
    table.add(pl.DataFrame({"k": np.zeros(rows, np.int64), "v": np.full(rows, -1.7976931348623157e308)}))
    (found,) = table.take()
    limbs = {name: found[name][0] for name in found.columns if name != "k"}
    assert all(-(2**31) <= limb < 2**31 for limb in limbs.values())
    total = sum(limb << int(name.rpartition(".e")[2]) for name, limb in limbs.items())
    assert total == -rows * int(1.7976931348623157e308)


SUMS = Grouping(
    COUNTED.keys,
    (
        *COUNTED.aggregates,
        Aggregate(Action.LIMBS, "s", "v", pl.Float64()),
        Aggregate(Action.SQUARES, "q", "v", pl.Float64()),
    ),
)


@given(st.integers(0, 2**32), st.sampled_from([1, 1 << 16, 1 << 18]))
def test_limbs_beyond_the_bound_come_in_several_frames(seed: int, limb_bytes_max: int) -> None:
    random = Random(seed)
    rows = random.choice([1, 255, 2000])
    values = [*(random.random() for _ in range(20)), 1.7e308, 5e-324, math.inf, math.nan, 0.0, None]
    frame = pl.DataFrame(
        {
            "__ts": [random.randint(0, 29) for _ in range(rows)],
            "k": pl.Series([random.choice([None, *range(300)]) for _ in range(rows)], dtype=pl.Int64),
            "v": pl.Series([random.choice(values) for _ in range(rows)], dtype=pl.Float64),
        }
    )
    panes = [(GroupTable(SUMS, limb_bytes_max=limb_bytes_max), begin, begin + 15) for begin in (0, 15)]
    for piece in in_pieces(random, frame):
        add_placed(piece, "__ts", panes)
    for table, begin, end in panes:
        inside = frame.filter(pl.col("__ts").is_between(begin, end, closed="left"))
        assert summed(table.take()) == expected_groups(inside, SUMS)


def summed(frames: list[pl.DataFrame]) -> dict[Group, Group]:
    """The sums of groups over all frames."""
    totals: dict[Group, Any] = {}
    for frame in frames:
        groups: Mapping[Group, Any] = found_groups([frame], SUMS)
        for key, (count, *sums) in groups.items():
            count_before, *before = totals.get(key, (0, (0,) * 4, (0,) * 4))
            totals[key] = (count_before + count, *(tuple(map(add, *pair)) for pair in zip(before, sums, strict=True)))
    return totals


def test_a_value_far_from_the_others_does_not_multiply_memory() -> None:
    limb_bytes_max = 16 << 20
    table = GroupTable(SUMS, limb_bytes_max=limb_bytes_max)
    keys = np.arange(100_000)
    table.add(pl.DataFrame({"k": keys, "v": keys * 0.1 + 1}))
    before = table.size_bytes
    table.add(pl.DataFrame({"k": [1, 1], "v": [1.7e308, 5e-324]}))
    assert table.size_bytes < before + limb_bytes_max
    assert [frame.height for frame in table.take()] == [100_000, 1]
    # the wide limbs of the last group are freed
    freed = table.size_bytes
    table.add(pl.DataFrame({"k": keys, "v": keys * 0.1 + 1}))
    assert freed < table.size_bytes <= before
    assert len(table.take()) == 1


def test_texts_beyond_the_bound_come_in_several_frames() -> None:
    frame = pl.DataFrame({"k": [f"a key of more than twelve bytes {number % 997}" for number in range(5000)]})
    table = GroupTable(TEXTS, text_bytes_max=10_000)
    table.add(frame)
    frames = table.take()
    assert len(frames) > 3
    found = pl.concat(frames).group_by("k").agg(pl.col("n").sum())
    assert sorted(found.rows()) == sorted(frame.group_by("k").agg(pl.len()).rows())


def test_a_block_with_more_text_than_a_frame_is_added_in_parts() -> None:
    keys = [f"a key of more than twelve bytes {number}" for number in range(9)]
    table = GroupTable(TEXTS, text_bytes_max=100)
    table.add(pl.DataFrame({"k": keys}))
    assert [frame["k"].to_list() for frame in table.take()] == [keys[:3], keys[3:6], keys[6:]]


def test_a_row_with_more_text_than_a_frame_is_an_error() -> None:
    table = GroupTable(TEXTS, text_bytes_max=100)
    with pytest.raises(MemoryError, match="the keys of one row have more text"):
        table.add(pl.DataFrame({"k": ["a short key", "a key of more than a hundred bytes" * 3]}))


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 255, 256, 257, 512])
def test_memory_that_ends_at_an_unreadable_page(rows: int) -> None:
    random = np.random.default_rng(rows)
    keys, values = random.integers(0, 9, rows), random.normal(0, 1, rows)
    kept: list[Guarded] = []

    def held(data: bytes) -> pa.Buffer:
        kept.append(guarded_copy(data))
        return pa.foreign_buffer(kept[-1].address, len(data), kept[-1])

    texts = ["a key of more than twelve bytes"[: 8 + int(key) * 2] for key in keys]
    views, heap = b"", b""
    for text in map(str.encode, texts):
        if len(text) <= 12:
            views += len(text).to_bytes(4, "little") + text.ljust(12, b"\0")
        else:
            views += len(text).to_bytes(4, "little") + text[:4] + bytes(4) + len(heap).to_bytes(4, "little")
            heap += text
    bits = np.packbits(keys != 3, bitorder="little").tobytes()
    frame = pl.DataFrame(
        {
            "k": pl.Series(pa.Array.from_buffers(pa.int64(), rows, [held(bits), held(keys.tobytes())])),
            "t": pl.Series(pa.Array.from_buffers(pa.string_view(), rows, [None, held(views), held(heap)])),
            "v": pl.Series(pa.Array.from_buffers(pa.float64(), rows, [held(bits), held(values.tobytes())])),
        }
    )
    grouping = Grouping(
        (KeyColumn("k", pl.Int64()), KeyColumn("t", pl.String())),
        tuple(
            Aggregate(action, action.name, "v", pl.Float64())
            for action in (Action.COUNT, Action.LIMBS, Action.SQUARES, Action.MIN, Action.MAX)
        ),
    )
    table = GroupTable(grouping)
    table.add(frame)
    assert found_groups(table.take(), grouping) == expected_groups(frame, grouping)


_IN_USE_AT_EXIT = """
import threading
import time
import numpy as np
import polars as pl
from headrace.kernels.group.group_by import *
table = GroupTable(Grouping((KeyColumn("k", pl.Int64()),), (Aggregate(Action.LIMBS, "s", "v", pl.Float64()),)))
random = np.random.default_rng(0)
frame = pl.DataFrame({"k": random.permutation(1 << 20), "v": random.random(1 << 20)})
def add():
    while True:
        table.add(frame)
threading.Thread(target=add, daemon=True).start()
while not table.groups:
    time.sleep(0.01)
"""


def test_a_table_that_a_daemon_thread_uses_outlives_the_interpreter() -> None:
    run = subprocess.run([sys.executable, "-c", _IN_USE_AT_EXIT], capture_output=True, text=True, check=False)
    assert (run.returncode, run.stderr) == (0, "")


_STARVED = """
import resource
import polars as pl
from headrace.kernels.group.group_by import *
table = GroupTable(Grouping((KeyColumn("k", pl.Int64()),), (Aggregate(Action.LIMBS, "s", "v", pl.Float64()),)))
frames = [pl.DataFrame({"k": range(n << 18, n + 1 << 18)}).with_columns(v=pl.col("k") * 0.1) for n in range(16)]
held = next(int(line.split()[1]) << 10 for line in open("/proc/self/status") if line.startswith("VmSize"))
resource.setrlimit(resource.RLIMIT_AS, (held + (64 << 20),) * 2)
try:
    for frame in frames:
        table.add(frame)
except MemoryError as error:
    print(error)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="the limit is Linux's")
def test_an_allocation_that_fails_is_an_error_that_names_it() -> None:
    run = subprocess.run([sys.executable, "-c", _STARVED], capture_output=True, text=True, check=True)
    assert run.stdout.startswith("no memory for more groups: the tables of this batch hold "), run.stderr
