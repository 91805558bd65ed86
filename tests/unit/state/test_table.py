from __future__ import annotations

import errno
import gc
import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from headrace.core.errors import UserError
from headrace.kernels.group.key_hash import key_hash
from headrace.kernels.state import runs as kernel
from headrace.state import row_groups, runs, table
from headrace.state.place import Budget, ImmediateMerges, RowFile, StatePlace
from headrace.state.restoring import ROWS_KEPT_MIN, restore
from headrace.state.row_groups import KeyOrder, SortedRows
from headrace.state.snapshot import RestoredFrame, StoredFile, StoredRows
from headrace.state.table import Table
from headrace.worker.state import local_files
from headrace.worker.state.local_files import LocalFiles
from headrace.worker.state.opened_place import BackgroundMerges

KEYS = ["name", "number"]
SCHEMA = {"name": pl.String(), "number": pl.Int64(), "sum": pl.Int64(), "most": pl.Int64()}
Row = tuple[str | None, int | None, int, int | None]
names = st.sampled_from([None, "", "a", "b", "twelve bytes", "more than twelve bytes", "x" * 1_000])
rows = st.tuples(names, st.sampled_from([None, 0, 1, -1, 1 << 62]), st.integers(-9, 9), st.none() | st.integers(-9, 9))
batches = st.lists(st.lists(rows, min_size=1, max_size=12), min_size=1, max_size=30)


def merge(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    return pl.concat(frames, how="diagonal").group_by(KEYS).agg(pl.col("sum").sum(), pl.col("most").max())


def frame(batch: Sequence[Row]) -> pl.DataFrame:
    return merge([pl.DataFrame(batch, schema=SCHEMA, orient="row")])


def oracle(batches: Sequence[Sequence[Row]]) -> dict[tuple[str | None, int | None], tuple[int, int | None]]:
    found: dict[tuple[str | None, int | None], tuple[int, int | None]] = {}
    for batch in batches:
        for name, number, plus, most in batch:
            total, greatest = found.get((name, number), (0, None))
            known = [value for value in (greatest, most) if value is not None]
            found[name, number] = (total + plus, max(known, default=None))
    return found


def contents(frames: Sequence[pl.DataFrame]) -> dict[tuple[str | None, int | None], tuple[int, int | None]]:
    return {(name, number): (total, most) for name, number, total, most in merge(frames).rows()} if frames else {}


WAYS = ["kernel", "joins", "colliding"]


@contextmanager
def searched_by(way: str) -> Iterator[None]:
    """Runs are searched by the kernel, by joins, or by the kernel with hashes of two bits."""
    with pytest.MonkeyPatch.context() as patched:
        if way == "joins":
            patched.setattr(kernel, "fits", lambda schema, keys: False)
        if way == "colliding":
            patched.setattr(row_groups, "key_hash", lambda rows, keys: key_hash(rows, keys) & np.uint64(3))
        yield


@pytest.mark.parametrize("way", WAYS)
@given(batches, st.data())
def test_a_table_finds_what_was_added(way: str, added: list[list[Row]], data: st.DataObject) -> None:
    with searched_by(way):
        found_what_was_added(added, data)


def found_what_was_added(added: list[list[Row]], data: st.DataObject) -> None:
    kept = Table.merging(KEYS, merge)
    for batch in added:
        kept.add(frame(batch), frames_max=data.draw(st.integers(1, 5)))
        if data.draw(st.booleans()):
            kept.seal()
        if data.draw(st.integers(0, 9)) == 0:
            before = [chunk.frame for chunk in kept.chunks()]
            kept = Table.merging(KEYS, merge)
            restore(kept, map(RestoredFrame, before))
    expected = oracle(added)
    assert contents([chunk.frame for chunk in kept.chunks()]) == expected
    asked = frame(data.draw(st.lists(rows, min_size=1, max_size=9))).select(KEYS)
    wanted = {key: value for key, value in expected.items() if key in set(asked.rows())}
    assert contents(kept.get(asked)) == wanted
    kept.seal()
    assert contents(kept.get_sealed(asked)) == wanted
    whole = kept.compact()
    assert whole.height == len(expected) == kept.rows
    assert contents([whole]) == expected
    assert contents(kept.get(asked)) == wanted


@given(batches)
def test_a_number_always_means_the_same_rows(added: list[list[Row]]) -> None:
    kept = Table.merging(KEYS, merge)
    seen: dict[int, pl.DataFrame] = {}
    for batch in added:
        kept.add(frame(batch), frames_max=3)
        for chunk in kept.chunks():
            assert seen.setdefault(chunk.id, chunk.frame).equals(chunk.frame)


@pytest.mark.parametrize("way", WAYS)
def test_runs_may_differ_in_columns(way: str) -> None:
    with searched_by(way):
        found_in_runs_with_other_columns()


def found_in_runs_with_other_columns() -> None:
    kept = Table.merging(["k"], lambda frames: pl.concat(frames, how="diagonal").group_by("k").sum())
    for batch in ({"k": [1, 2], "a": [1, 1]}, {"k": [2, 3], "b": [5, 5]}, {"k": [1], "a": [7], "b": [7]}):
        kept.add(pl.DataFrame(batch))
        kept.seal()
    found = pl.concat(kept.get(pl.DataFrame({"k": [1, 2, 4]})), how="diagonal").group_by("k").sum().sort("k")
    assert found.rows(named=True) == [{"k": 1, "a": 8, "b": 7}, {"k": 2, "a": 1, "b": 5}]


def test_without_keys_all_rows_belong_together() -> None:
    kept = Table.merging([], lambda frames: pl.concat(frames).sum())
    for number in range(10):
        kept.add(pl.DataFrame({"n": [number]}), frames_max=2)
    asked = pl.DataFrame()
    assert sum(rows.item() for rows in kept.get(asked)) == 45
    assert kept.compact().item() == 45


def test_recent_rows_are_bounded_in_frames_and_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "ROWS_RECENT_MAX", 10)
    one = pl.DataFrame({"k": [1], "n": [1]})
    kept = Table.merging(["k"], lambda frames: pl.concat(frames).group_by("k").sum())
    for _ in range(9):
        kept.add(one)
    assert (kept.runs, kept.rows) == (0, 9)
    kept.add(one)
    assert (kept.runs, kept.rows) == (1, 1), "ten rows are sealed"
    for _ in range(3):
        kept.add(one, frames_max=3)
    assert (kept.runs, kept.rows) == (2, 2), "three frames are sealed"


def test_restored_rows_are_bounded_in_runs() -> None:
    """An engine that reads state when keys arrive restores it bit by bit."""
    kept = Table.merging(["k"], lambda frames: pl.concat(frames).group_by("k").sum())
    for number in range(100):
        restore(kept, [RestoredFrame(pl.DataFrame({"k": [number], "n": [1]}))])
        assert kept.runs <= runs.RUNS_MAX
    assert kept.compact().height == 100


class Files:
    """Files of the tests: they count what is moved."""

    def __init__(self, folder: Path) -> None:
        self._files = LocalFiles(folder)
        self.moved = 0
        self.threads: set[str] = set()

    def kept(self, frame: pl.DataFrame) -> RowFile:
        self.moved += 1
        self.threads.add(threading.current_thread().name)
        return self._files.kept(frame)

    def release_pages(self) -> None:
        self._files.release_pages()

    def limit_pages(self) -> None:
        self._files.limit_pages()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("files")


@pytest.mark.parametrize("way", WAYS)
@given(batches, st.data())
def test_a_table_in_local_files_has_the_same_rows(
    folder: Path, way: str, added: list[list[Row]], data: st.DataObject
) -> None:
    """Every part moves to a file at once, merges are cut into pieces of a few rows and run beside the table."""
    files = Files(folder)
    with searched_by(way), pytest.MonkeyPatch.context() as patched:
        patched.setattr(runs, "MOVED_BYTES_MIN", 0)
        patched.setattr(runs, "PART_ROWS_MAX", data.draw(st.integers(1, 8)))
        patched.setattr(runs, "_SAMPLED_ROWS", 1)
        place = StatePlace(data.draw(st.sampled_from([1, 7, 128])), Budget(0), BackgroundMerges(), files)
        kept = Table.merging(KEYS, merge, place)
        for batch in added:
            kept.add(frame(batch), frames_max=data.draw(st.integers(1, 3)))
        expected = oracle(added)
        assert contents([chunk.frame for chunk in kept.chunks()]) == expected
        asked = frame(data.draw(st.lists(rows, min_size=1, max_size=9))).select(KEYS)
        wanted = {key: value for key, value in expected.items() if key in set(asked.rows())}
        assert contents(kept.get(asked)) == wanted
        assert contents([kept.compact()]) == expected
        assert contents(kept.get(asked)) == wanted
        again = Table.merging(KEYS, merge, place)
        restore(again, (RestoredFrame(chunk.frame) for chunk in kept.chunks()))
        assert contents(again.get(asked)) == wanted
    assert files.moved
    assert list(folder.iterdir()) == [], "files have no names"


def test_rows_of_all_types_come_back_from_a_file(folder: Path) -> None:
    given_rows = pl.DataFrame(
        {
            "text": ["", None, "x" * 100],
            "bytes": [b"", b"\x00" * 50, None],
            "whole": pl.Series([None, -(1 << 90), (1 << 100)], dtype=pl.Int128),
            "number": [0.0, float("nan"), None],
            "yes": [True, None, False],
            "at": pl.Series([0, None, 5], dtype=pl.Datetime("us", "UTC")),
            "price": pl.Series(["1.50", None, "-2.25"]).str.to_decimal(scale=2),
            "many": [[1, 2], [], None],
            "both": [{"a": 1, "b": "x"}, {"a": None, "b": None}, {"a": 3, "b": "y"}],
        }
    )
    files = LocalFiles(folder)
    found = files.kept(given_rows)
    assert_frame_equal(found.frame, given_rows)
    files.release_pages()
    assert_frame_equal(found.frame, given_rows)


def test_a_file_has_no_name_while_it_is_written(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names: list[list[Path]] = []
    inner = pa.memory_map

    def looking(name: str) -> object:
        names.append(list(folder.iterdir()))
        return inner(name)

    monkeypatch.setattr(pa, "memory_map", looking)
    LocalFiles(folder).kept(pl.DataFrame({"n": [1]}))
    assert names == [[]]


def test_a_full_disk_is_an_error_with_path_size_and_remedy(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    kept = Table.merging(["k"], merge, StatePlace(budget=Budget(0), files=LocalFiles(folder)))
    monkeypatch.setattr(pa.ipc, "new_file", full)
    with pytest.raises(UserError, match=rf"bytes of state cannot be written to {folder} .* the disk is full") as raised:
        kept.add(pl.DataFrame({"k": range(table.ROWS_RECENT_MAX)}))
    assert "set state.dir to a larger disk" in str(raised.value.remedy)
    assert list(folder.iterdir()) == []


def test_mapped_pages_have_a_bound(folder: Path) -> None:
    rows = pl.DataFrame({"n": np.arange(8 << 20)})
    room = local_files.mapped_bytes() + (32 << 20)
    files = LocalFiles(folder, room)
    kept = files.kept(rows)
    assert kept.frame["n"].sum() == rows["n"].sum()
    assert local_files.mapped_bytes() > room
    files.limit_pages()
    assert local_files.mapped_bytes() < room
    assert kept.frame["n"].sum() == rows["n"].sum()


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def test_files_take_no_descriptors(folder: Path) -> None:
    files, before = LocalFiles(folder), descriptors()
    kept = [files.kept(pl.DataFrame({"n": range(1000)})) for _ in range(50)]
    assert descriptors() <= before + 2
    assert sum(file.frame.height for file in kept) == 50_000


def test_one_thread_keeps_rows_while_another_releases_pages(folder: Path) -> None:
    files, rows = LocalFiles(folder), pl.DataFrame({"n": [1]})
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(1) as pool:
            keeping = pool.submit(lambda: [files.kept(rows) for _ in range(500)])
            while not keeping.done():
                files.release_pages()
            assert len(keeping.result()) == 500
    finally:
        sys.setswitchinterval(interval)


def test_more_than_memory_allows_is_refused() -> None:
    kept = Table.merging(["k"], merge, StatePlace(budget=Budget(1000)))
    with pytest.raises(UserError, match=r"the state of a slot has .* bytes, and state.memory allows 1,000"):
        for number in range(100):
            kept.add(pl.DataFrame({"k": [f"key {number}"] * 100}), frames_max=1)


def test_a_merge_that_fails_fails_the_table() -> None:
    def broken(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        raise ZeroDivisionError("of this merge")

    kept = Table.merging(["k"], broken, StatePlace(merges=BackgroundMerges()))
    with pytest.raises(ZeroDivisionError, match="of this merge"):
        for number in range(runs.RUNS_MAX + 2):
            kept.add(pl.DataFrame({"k": [number % 2]}), frames_max=1)


def test_a_step_moves_no_more_than_the_excess(folder: Path) -> None:
    """The largest parts move, until the slot is within its budget."""
    limit = 4 << 20
    files = Files(folder)
    place = StatePlace(budget=Budget(limit), files=files)
    kept = Table.merging(["k"], lambda frames: pl.concat(frames).group_by("k").agg(pl.col("n").sum()), place)
    most = 0
    for number in range(40):
        first = number * 10_000
        kept.add(pl.DataFrame({"k": range(first, first + 10_000), "n": [1] * 10_000}), frames_max=2)
        most = max(most, place.budget.memory_bytes)
    assert limit // 2 < most <= limit
    assert place.budget.file_bytes > limit
    assert kept.compact().height == 400_000


def test_a_little_more_than_the_budget_is_moved_beside_the_step(folder: Path) -> None:
    """A step that seals few rows does not wait for a large part to be written."""
    files = Files(folder)
    rows = pl.DataFrame({"k": range(60_000), "n": [1] * 60_000})
    size = int(rows.estimated_size()) + 8 * rows.height
    place = StatePlace(budget=Budget(size), merges=BackgroundMerges(), files=files)
    kept = Table.merging(["k"], lambda frames: pl.concat(frames).group_by("k").agg(pl.col("n").sum()), place)
    kept.add(rows)
    kept.seal()
    kept.add(rows.head(10))
    kept.seal()
    assert kept.compact().get_column("n").sum() == 60_010
    assert place.budget.memory_bytes <= size
    assert files.threads <= {"merge", "move"}


def test_a_step_moves_small_parts_while_large_ones_are_being_moved(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Suspended(ImmediateMerges):
        """Short work waits until the end of the test."""

        def __init__(self) -> None:
            self.short: list[tuple[Callable[[], Any], Future[Any]]] = []

        def start_short(self, work: Callable[[], Any]) -> Future[Any]:
            self.short.append((work, Future()))
            return self.short[-1][1]

    large, small = (pl.DataFrame({"k": range(rows), "n": [1] * rows}) for rows in (60_000, 8_000))
    size = int(large.estimated_size()) + 8 * large.height
    monkeypatch.setattr(runs, "RUNS_A_TIER", 100)
    merges, files = Suspended(), Files(folder)
    place = StatePlace(budget=Budget(size), merges=merges, files=files)
    kept = Table.merging(["k"], lambda frames: pl.concat(frames).group_by("k").agg(pl.col("n").sum()), place)
    kept.add(large)
    kept.seal()
    seen = []
    for number in range(1, 13):
        kept.add(small.with_columns(pl.col("k") + 60_000 * number))
        kept.seal()
        seen.append(files.moved)
    assert len(merges.short) == 1, "what is moved is chosen once"
    # parts that are being moved do not count; beyond them an eighth of the budget may be left
    assert seen == [0] * 8 + [1, 2, 3, 4]
    assert kept.sealed()[0].file is None
    for work, moving in merges.short:
        moving.set_result(work())
    kept.shrink()
    assert place.budget.memory_bytes <= size + size // 8
    assert kept.compact().height == 60_000 + 12 * 8_000


def test_rows_that_were_merged_are_freed_beside_the_step() -> None:
    threads: list[str] = []
    place = StatePlace(merges=BackgroundMerges())
    kept = Table.merging(["k"], lambda frames: pl.concat(frames).group_by("k").agg(pl.col("n").sum()), place)
    for number in range(runs.RUNS_A_TIER):
        kept.add(pl.DataFrame({"k": range(number, number + 100_000), "n": 1}))
    seen = [
        weakref.ref(part.frame, lambda _: threads.append(threading.current_thread().name)) for part in kept.sealed()
    ]
    kept.compact()
    place.merges.start_short(lambda: None).result()
    assert threads == ["move"] * len(seen)


def test_recent_rows_are_sealed_early_where_there_is_no_room(folder: Path) -> None:
    place = StatePlace(budget=Budget(1 << 20), files=LocalFiles(folder))
    tables = [
        Table.merging(["k"], lambda frames: pl.concat(frames).group_by("k").agg(pl.col("n").sum()), place)
        for _ in range(4)
    ]
    for number in range(8):
        for each in tables:
            each.add(pl.DataFrame({"k": range(number * 40_000, (number + 1) * 40_000), "n": 1}))
            each.shrink()
    assert place.budget.memory_bytes < 5 << 20
    assert [each.compact().height for each in tables] == [320_000] * 4


def test_a_snapshot_keeps_no_rows_in_memory_that_its_table_has_moved(folder: Path) -> None:
    place = StatePlace(budget=Budget(4 << 20), files=LocalFiles(folder))
    kept = Table.merging(["k"], lambda frames: pl.concat(frames).group_by("k").agg(pl.col("n").sum()), place)
    kept.add(pl.DataFrame({"k": range(200_000), "n": 1}))
    (chunk,) = kept.chunks()
    assert place.budget.file_bytes == 0
    before = weakref.ref(chunk.frame)
    rows = chunk.frame.rows()
    kept.add(pl.DataFrame({"k": range(200_000, 300_000), "n": 1}))
    gc.collect()
    assert place.budget.file_bytes > 0
    assert before() is None
    assert chunk.frame.rows() == rows
    assert chunk.sorted is not None
    assert chunk.sorted.frame.rows() == rows


def test_caches_alone_never_press_a_slot() -> None:
    """Nothing would empty them: its sources would pause for ever."""
    budget = Budget(64 << 20)
    accounts = [(budget.account(), budget.cache(64 << 20)) for _ in range(20)]
    for account, cache in accounts:
        account.memory_bytes = cache.bytes_max
    assert 0 < budget.memory_bytes <= 16 << 20
    assert not budget.is_pressed()
    first = accounts[0][1]
    del accounts[1:], account, cache
    assert first.bytes_max == 16 << 20


def test_a_slot_is_pressed_until_it_is_within_its_budget() -> None:
    budget = Budget(100)
    account = budget.account()
    seen = []
    for account.memory_bytes in (100, 150, 151, 101, 100, 150):
        seen.append(budget.is_pressed())
    assert seen == [False, False, True, True, False, False]
    assert not Budget().is_pressed()


@pytest.mark.parametrize(
    ("limit", "piece"), [(None, 64 << 20), (1 << 20, 4 << 20), (64 << 20, 8 << 20), (8 << 30, 64 << 20)]
)
def test_a_piece_is_a_share_of_the_budget(limit: int | None, piece: int) -> None:
    assert Budget(limit).piece_bytes == piece


def test_a_merge_is_cut_into_pieces_of_so_many_bytes() -> None:
    wide = pl.DataFrame({"k": range(1000), "text": ["x" * 1000] * 1000})
    order = KeyOrder(("k",), 128)
    parts = [runs.part_of(number, wide.with_columns(k=pl.col("k") + 1000 * number), order) for number in range(4)]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(runs, "_SAMPLED_ROWS", 1)
        pieces = [
            rows.frame for rows in runs.merged(parts, order, None, piece_bytes=1 << 20) if isinstance(rows, SortedRows)
        ]
    assert sum(piece.height for piece in pieces) == 4000
    assert len(pieces) == 4
    assert max(piece.height for piece in pieces) < 1200


def test_a_restored_frame_keeps_its_origin_until_it_is_merged(folder: Path) -> None:
    rows = pl.DataFrame({"k": range(ROWS_KEPT_MIN), "n": 1})
    few = pl.DataFrame({"k": range(10), "n": 1})
    origin = StoredRows(StoredFile("a", 1, "xxh64:0", ("k",), rows.height), (0,), rows.height)
    place = StatePlace(budget=Budget(0), files=LocalFiles(folder))
    kept = Table.merging(["k"], lambda frames: pl.concat(frames).group_by("k").agg(pl.col("n").sum()), place)
    restore(kept, [RestoredFrame(rows, origin), RestoredFrame(few, origin), RestoredFrame(few)])
    assert [(chunk.frame.height, chunk.origin) for chunk in kept.chunks()] == [(rows.height, origin), (20, None)]
    assert kept.compact().height == rows.height
    assert [chunk.origin for chunk in kept.chunks()] == [None]
