"""Tables whose rows replace each other, are appended, lie in buckets, or expire: one rule a test."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import polars as pl
import pytest

from headrace.state import table
from headrace.state.combine import ASKED, KIND, Append, Last, Merged, TableConfig
from headrace.state.restoring import restore
from headrace.state.snapshot import RestoredFrame
from headrace.state.table import Table

VALUES = TableConfig(("k",), Last())
ENTRIES = TableConfig(("k",), Last(), ("at",))
LISTS = TableConfig(("k",), Append(), ("at",))
SIDES = TableConfig(("k",), Append(), ("at", "slot"), bucket="slot")
EXPIRING = TableConfig(("k",), Last(), written="written", ttl_ms=10)


TIMES = {"written": pl.Int64()}


def keys(*values: int) -> pl.DataFrame:
    return pl.DataFrame({"k": values})


def rows(*values: tuple[int, ...], names: str = "k at v") -> pl.DataFrame:
    return pl.DataFrame(values, schema=names.split(), orient="row")


def test_the_last_row_of_a_key_is_read() -> None:
    kept = Table(VALUES)
    kept.add(rows((1, 0, 10), (2, 0, 20), (1, 0, 11)))
    kept.seal()
    kept.add(rows((2, 0, 21)))
    assert kept.read(keys(2, 3, 1)).select(ASKED, "v").rows() == [(0, 21), (2, 11)]


def test_a_deleted_row_comes_back_if_it_is_written_again() -> None:
    kept = Table(VALUES)
    kept.add(rows((1, 0, 10)))
    kept.delete(keys(1, 9))
    assert not kept.read(keys(1)).height
    kept.add(rows((1, 0, 12)))
    assert kept.read(keys(1)).select("v").rows() == [(12,)]


def test_entries_are_deleted_one_by_one_or_by_key() -> None:
    kept = Table(ENTRIES)
    kept.add(rows((1, 5, 50), (1, 6, 60), (2, 5, 70)))
    kept.delete(rows((1, 5), names="k at"))
    assert kept.read(keys(1, 2)).select("at", "v").rows() == [(6, 60), (5, 70)]
    kept.delete(keys(1))
    kept.add(rows((1, 9, 90)))
    assert kept.read(keys(1, 2)).select("at", "v").rows() == [(9, 90), (5, 70)]


def test_tombstones_go_with_the_oldest_run() -> None:
    kept = Table(VALUES)
    kept.add(rows((1, 0, 10), (2, 0, 20)))
    kept.seal()
    kept.delete(keys(1))
    kept.seal()
    assert any(KIND in frame.columns for frame in kept.frames())
    whole = kept.compact()
    assert whole.select("k", "v").rows() == [(2, 20)]
    assert KIND not in whole.columns


def test_appended_rows_come_in_their_order() -> None:
    kept = Table(LISTS)
    kept.add(rows((1, 7, 0), (1, 5, 1)))
    kept.seal()
    kept.add(rows((1, 5, 2), (2, 5, 3)))
    assert kept.read(keys(1)).select("at", "v").rows() == [(5, 1), (5, 2), (7, 0)]
    kept.delete(keys(1))
    assert kept.read(keys(1, 2)).select("v").rows() == [(3,)]


def test_a_range_is_that_of_each_key() -> None:
    kept = Table(LISTS)
    kept.add(rows(*((key, at, 10 * key + at) for key in (1, 2) for at in range(6))))
    found = kept.between(keys(1, 2, 1), pl.Series([1, 4, 2]), pl.Series([2, 9, None]))
    assert found.select(ASKED, "v").rows() == [(0, 11), (0, 12), (1, 24), (1, 25)]


def test_due_rows_come_by_bucket_and_dropped_buckets_are_not_read(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Table(SIDES)
    for at in (25, 3, 14, 21, 8):
        kept.add(rows((1, at, at // 10, at), names="k at slot v"))
        kept.seal()
    assert [sorted(frame.get_column("v")) for frame in kept.due(1)] == [[3, 8], [14]]

    def read(*_: object) -> None:
        raise AssertionError("what is dropped is not read")

    with monkeypatch.context() as patched:
        patched.setattr(table, "merged", read)
        kept.drop(1)
    assert [sorted(frame.get_column("v")) for frame in kept.due(9)] == [[21, 25]]
    kept.add(rows((1, 2, 0, 99), names="k at slot v"))
    assert kept.read(keys(1)).get_column("v").to_list() == [99, 21, 25]


def test_a_chunk_has_rows_of_one_bucket() -> None:
    def merge(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
        return pl.concat(frames).group_by("k", "slot").agg(pl.col("v").sum())

    config = TableConfig(("k", "slot"), Merged(merge), bucket="slot")
    kept, again = Table(config), Table(config)
    for _ in range(2):
        kept.add(rows((1, 0, 5), (1, 1, 6), names="k slot v"))
    restore(again, (RestoredFrame(chunk.frame) for chunk in kept.chunks()))
    assert [frame.rows() for frame in again.due(0)] == [[(1, 0, 10)]]
    again.drop(0)
    assert [frame.rows() for frame in again.scan()] == [[(1, 1, 12)]]


def test_rows_are_hidden_at_the_time_of_their_access() -> None:
    kept = Table(EXPIRING)
    kept.add(pl.DataFrame({"k": [1, 2], "written": [0, 5], "v": [1, 2]}))
    assert kept.read(keys(1, 2), at=9).height == 2
    assert kept.read(keys(1, 2), at=10).get_column("k").to_list() == [2]
    assert kept.read(keys(2, 2, 1), at=pl.Series([15, 14, 9])).select(ASKED, "k").rows() == [(1, 2), (2, 1)]


@pytest.mark.parametrize("times", [{}, {"written": [None, 3]}])
def test_restored_rows_without_a_time_were_written_at_the_restore(times: dict[str, list[int | None]]) -> None:
    kept = Table(EXPIRING)
    kept.expire(7)
    restore(kept, [RestoredFrame(pl.DataFrame({"k": [1, 2], "v": [1, 2], **times}, schema_overrides=TIMES))])
    assert 1 in kept.read(keys(1, 2), at=16).get_column("k")
    assert not kept.read(keys(1, 2), at=17).height


def test_a_run_whose_rows_have_expired_goes_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Table(EXPIRING)
    for time in (0, 4):
        kept.add(pl.DataFrame({"k": [time], "written": [time], "v": [0]}))
        kept.seal()
    monkeypatch.setattr(table, "merged", None)
    kept.expire(9)
    assert (kept.runs, kept.rows) == (2, 2)
    kept.expire(10)
    assert (kept.runs, kept.rows) == (1, 1)
    kept.expire(14)
    assert (kept.runs, kept.rows) == (0, 0)


def test_rows_of_a_long_time_that_come_together_do_not_stay_for_the_newest() -> None:
    kept = Table(EXPIRING)
    kept.add(pl.DataFrame({"k": range(100), "written": range(100), "v": 0}))
    kept.expire(99)
    assert kept.rows == 10


def test_versions_of_restored_chunks_decide_not_their_order() -> None:
    kept = Table(VALUES)
    for value in range(3):
        kept.add(rows((1, 0, value), (value + 5, 0, value)))
        kept.seal()
    frames = [chunk.frame for chunk in kept.chunks()]
    again = Table(VALUES)
    restore(again, map(RestoredFrame, reversed(frames)))
    assert again.read(keys(1)).get_column("v").to_list() == [2]
    again.add(rows((1, 0, 7)))
    assert again.read(keys(1)).get_column("v").to_list() == [7]


@pytest.mark.parametrize(
    "wrong",
    [
        {"combine": Last(), "keys": ()},
        {"combine": Append()},
        {"combine": Last(), "bucket": "slot"},
        {"combine": Last(), "ttl_ms": 5},
    ],
)
def test_a_config_that_cannot_hold_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        TableConfig(**{"keys": ("k",), **wrong})  # type: ignore[arg-type]


def test_a_snapshot_of_last_rows_has_no_recent_ones() -> None:
    kept = Table(VALUES)
    for value in range(3):
        kept.add(rows((1, 0, value)))
    (chunk,) = kept.chunks()
    assert chunk.frame.select("v").rows() == [(2,)]
    assert chunk.sorted is not None
    assert (np.diff(chunk.sorted.places.astype(np.int64)) >= 0).all()
