"""State as tables: rows of a step's output, of one key, of a condition, in pieces."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import polars as pl
import pytest
from polars.testing import assert_frame_equal

from headrace.checkpoint.inspection import state_rows, views
from headrace.checkpoint.inspection.selection import first_rows, parse_key, selected, typed_key
from headrace.checkpoint.inspection.views import StepRows, View, open_view
from headrace.checkpoint.manifest import Manifest, located
from headrace.checkpoint.stores.opening import read_url_range
from headrace.core.errors import ExternalError, UserError
from headrace.operators.aggregate import AggregateConfig
from headrace.state.parquet import row_groups_of
from support.storage.cuts import GROUPS, HOURLY, TOTALS, cut, handles_of, renamed, sales, without_definitions

BATCHES = (sales(700), sales(500, first=700))
ROWS = pl.concat(BATCHES)
VALUES = [
    pl.len().cast(pl.Int64).alias("n"),
    pl.col("price").sum().alias("total"),
    (pl.col("price").mean() + 1).alias("mean"),
    pl.col("item").n_unique().cast(pl.Int64).alias("items"),
]
EXPECTED = ROWS.group_by("shop", "till").agg(VALUES)


@pytest.fixture(scope="module")
def manifest(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    folder = tmp_path_factory.mktemp("cut")
    return located(cut(folder, *BATCHES), str(folder))


def read(view: View, *key: str, where: str | None = None) -> pl.DataFrame:
    return pl.concat([pl.DataFrame(schema=dict(view.columns)), *selected(view, parse_key(view, key), where)])


def same(found: pl.DataFrame, expected: pl.DataFrame) -> None:
    assert_frame_equal(found, expected.select(found.columns), check_row_order=False, check_exact=True)


def test_a_running_aggregate_reads_as_its_results(manifest: Manifest) -> None:
    view = open_view(manifest, "totals", None)
    assert (view.state, view.keys, view.rows) == (None, ("shop", "till"), None)
    assert view.schema.names == ("shop", "till", "n", "total", "mean", "items")
    same(read(view), EXPECTED)


def test_windows_that_are_open_read_as_their_results(tmp_path: Path) -> None:
    hour = pl.col("__ts") // 3_600_000
    fired = handles_of(tmp_path, HOURLY, BATCHES, watermark=2 * 3_600_000 - 1)
    manifest = located(cut(tmp_path).model_copy(update={"states": tuple(fired)}), str(tmp_path))
    starts = (hour * 3_600_000_000).cast(pl.Datetime("us", "UTC"))
    expected = (
        ROWS.filter(hour >= 2)
        .group_by("shop", starts.alias("window_start"))
        .agg(pl.len().cast(pl.Int64).alias("n"), pl.col("price").max().alias("best"))
        .with_columns(window_end=pl.col("window_start") + pl.duration(hours=1))
    )
    same(read(open_view(manifest, "hourly", None)), expected)
    same(read(open_view(manifest, "hourly", None), "shop=north"), expected.filter(shop="north"))


def test_pieces_make_the_whole(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(views, "PIECE_ROWS", 10)
    monkeypatch.setattr(state_rows, "ROW_GROUPS_MAX", 1)
    view = open_view(manifest, "totals", None)
    assert isinstance(view, StepRows)
    pieces = list(view.pieces())
    assert len(pieces) > GROUPS / 2
    same(pl.concat(pieces), EXPECTED)


def test_rows_of_a_key_or_a_condition(manifest: Manifest) -> None:
    view = open_view(manifest, "totals", None)
    same(read(view, "shop=south", "till=7"), EXPECTED.filter(shop="south", till=7))
    same(read(view, "till=7"), EXPECTED.filter(till=7))
    same(
        read(view, where="total > 11 and shop = 'north'"),
        EXPECTED.filter((pl.col("total") > 11) & (pl.col("shop") == "north")),
    )
    same(read(view, "till=7", where="mean > 100"), EXPECTED.clear())
    assert read(view, "shop=west", "till=7").is_empty()
    same(
        pl.concat(selected(view, typed_key(view, {"shop": "south", "till": 7}), None)),
        EXPECTED.filter(shop="south", till=7),
    )


def test_states_as_they_are_kept(manifest: Manifest) -> None:
    view = open_view(manifest, "totals", "groups")
    assert (view.state, view.keys) == ("groups", ("shop", "till"))
    assert view.rows == read(view).height
    assert set(read(view, "shop=south", "till=7")["till"]) == {7}
    assert view.schema.names == ("shop", "till"), "columns of headrace's own take part in no condition"
    time = open_view(manifest, "hourly", "time")
    assert (time.keys, read(time, where="not ordered").height) == ((), 2)
    earlier = open_view(without_definitions(manifest), "totals", "groups")
    assert_frame_equal(read(earlier), read(view))


def test_positions_of_a_source(manifest: Manifest) -> None:
    view = open_view(manifest, "sales", None)
    assert read(view, where="position > 100").rows() == [("sales", 0, 200, False, read(view)["max_ts"][0])]
    assert read(view, "topic=sales", "partition=1")["position"].to_list() == [7]


def test_a_key_that_is_null_or_no_number(tmp_path: Path) -> None:
    rows = pl.DataFrame(
        {"shop": ["a", None, "a"], "price": [1.0, 2.0, -0.0], "till": [1, 1, 1], "item": "x", "__ts": 0}
    )
    manifest = located(cut(tmp_path, rows, steps=[counted_by("price"), counted_by("shop")]), str(tmp_path))
    prices, shops = open_view(manifest, "by_price", None), open_view(manifest, "by_shop", None)
    assert read(prices, "price=0")["n"].to_list() == [1]
    assert pl.concat(selected(shops, typed_key(shops, {"shop": None}), None))["n"].to_list() == [1]
    assert read(shops, where="shop is null")["n"].to_list() == [1]


def counted_by(key: str) -> AggregateConfig:
    """Counts rows by a column."""
    return replace(renamed(TOTALS, n="count(*)"), node=f"by_{key}", keys=(key,))


@pytest.mark.parametrize(
    ("node", "state", "message"),
    [
        ("total", None, r"there is no node 'total'(.|\n)*did you mean 'totals'"),
        ("x", None, r"there is no node 'x'(.|\n)*it has: hourly, totals, sales"),
        ("out", None, r"node 'out' holds no state(.|\n)*it has: hourly, totals, sales"),
        (
            "totals",
            "windows",
            r"there is no state 'windows' of node 'totals'(.|\n)*it has: --node totals --state distinct_item",
        ),
        (None, None, r"it holds \d states(.|\n)*name one: --node hourly --state time"),
    ],
)
def test_what_there_is_not_is_named(manifest: Manifest, node: str | None, state: str | None, message: str) -> None:
    with pytest.raises(UserError, match=message):
        open_view(manifest, node, state)


@pytest.mark.parametrize(
    ("key", "where", "message"),
    [
        (["till"], None, r"key 'till' has no value(.|\n)*COLUMN=VALUE"),
        (["tills=1"], None, r"totals has no key column 'tills'(.|\n)*did you mean 'till'\? key columns: shop, till"),
        (["n=1"], None, r"totals has no key column 'n'(.|\n)*key columns: shop, till"),
        (["till=x"], None, r"key till=x: (.|\n)*"),
        (["till=1", "till=2"], None, r"key column 'till' is given twice"),
        ([], "totl > 1", r"where 'totl > 1': there is no column 'totl'(.|\n)*did you mean 'total'"),
        ([], "__sum > 1", r"where '__sum > 1': (.|\n)*"),
        ([], "total", r"where 'total': a condition is needed, and this is float64"),
        ([], "total >", r"where 'total >': (.|\n)*"),
        ([], "cast(item as int64) = 1", r"there is no column 'item'(.|\n)*"),
        ([], "cast(shop as int64) = 1", r"where '.*' has no result for shop"),
    ],
)
def test_a_wrong_question_says_what_there_is(
    manifest: Manifest, key: list[str], where: str | None, message: str
) -> None:
    with pytest.raises(UserError, match=message):
        read(open_view(manifest, "totals", None), *key, where=where)


def test_the_first_rows_end_the_reading(manifest: Manifest) -> None:
    view = open_view(manifest, "totals", None)

    def frames() -> object:
        yield EXPECTED.head(3)
        raise AssertionError("no more is asked for")

    found, total = first_rows(view, frames(), 2, total=9)  # type: ignore[arg-type]
    assert (found.height, total) == (2, 9)
    found, total = first_rows(view, [EXPECTED.head(3)] * 2, 4)
    assert (found.height, total) == (4, 6)


# ---- a state of many row groups ----------------------------------------------------------------------------------


@dataclass
class Reads:
    """Reads files as `read_url_range` does, and counts."""

    total: int = 0

    def __call__(self, path: str, offset: int, /, *, length: int) -> bytes:
        data = read_url_range(path, offset, length=length)
        self.total += len(data)
        return data


@pytest.fixture(scope="module")
def large(tmp_path_factory: pytest.TempPathFactory) -> Manifest:
    """Two subtasks with 20 row groups each of one chunk."""
    folder = tmp_path_factory.mktemp("large")
    keys = pl.int_range(320_000, eager=True)
    rows = pl.DataFrame({"shop": keys.hash().cast(pl.String), "till": keys, "price": keys / 8, "item": "x", "__ts": 0})
    step = renamed(TOTALS, total="sum(price)")
    return located(cut(folder, rows, steps=[step]), str(folder))


def test_one_key_of_a_large_state_reads_its_row_group_only(large: Manifest) -> None:
    (groups,) = [[each for each in large.states if each.state == "groups"]]
    assert [len(each.files[0].row_groups) for each in groups] == [20, 20]
    state_bytes = sum(each.files[0].bytes for each in groups)
    shop = str(pl.Series([123_456]).hash()[0])
    for state in (None, "groups"):
        reads = Reads()
        view = open_view(large, "totals", state, read=reads)
        found = read(view, f"shop={shop}", "till=123456")
        assert found.height == 1
        # a row group, the footer of one file, and the state `time`
        assert reads.total < state_bytes / 20, f"{reads.total} of {state_bytes} bytes"


def test_a_row_group_that_is_not_asked_for_may_be_damaged(large: Manifest) -> None:
    first = next(each for each in large.states if each.state == "groups")
    path = Path(first.files[0].path.removeprefix("file://"))
    data = path.read_bytes()
    groups = row_groups_of(data)
    assert groups is not None
    keys = open_view(large, "totals", "groups")
    rows = next(iter(keys.pieces()))
    inside, outside = rows.row(0, named=True), rows.row(groups.groups[0].rows, named=True)
    place = groups.groups[0].offset + groups.groups[0].bytes // 2
    path.chmod(0o644)
    path.write_bytes(data[:place] + bytes([data[place] ^ 1]) + data[place + 1 :])
    try:
        for state in (None, "groups"):
            assert asked(large, state, outside).height == 1
            with pytest.raises(ExternalError, match=r"groups.* is damaged: row group 0, key group"):
                asked(large, state, inside)
    finally:
        path.write_bytes(data)


def asked(manifest: Manifest, state: str | None, row: dict[str, object]) -> pl.DataFrame:
    return read(open_view(manifest, "totals", state), f"shop={row['shop']}", f"till={row['till']}")


def test_a_file_that_is_gone_is_named(tmp_path: Path) -> None:
    manifest = located(cut(tmp_path, *BATCHES), str(tmp_path))
    missing = next(each for each in manifest.states if each.state == "groups")
    Path(missing.files[0].path).unlink()
    with pytest.raises(ExternalError, match="is missing"):
        read(open_view(manifest, "totals", None))
    pruned = manifest.model_copy(update={"kind": "checkpoint"})
    with pytest.raises(ExternalError, match=r"is gone: checkpoint 5 of tills is no longer retained"):
        read(open_view(pruned, "totals", "groups"))


def test_files_without_ranges_are_read_whole(manifest: Manifest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headrace.checkpoint.part_reader.row_groups_of", lambda data: None)
    monkeypatch.setattr(views, "PIECE_ROWS", 10)
    view = open_view(manifest, "totals", None)
    same(read(view), EXPECTED)
    same(read(open_view(manifest, "totals", None), "shop=south", "till=7"), EXPECTED.filter(shop="south", till=7))


def test_handles_of_another_range_are_not_opened(large: Manifest) -> None:
    view = open_view(large, "totals", "groups")
    row = next(iter(view.pieces())).row(0, named=True)
    for state in large.states:
        if state.subtask == 1 and state.state == "groups":
            lost = state.files[0].model_copy(update={"path": "/nowhere/x.parquet"})
            other = state.model_copy(update={"files": (lost,)})
    kept = [each for each in large.states if each.subtask == 0 and each.state == "groups"]
    alone = large.model_copy(update={"states": (*kept, other)})
    assert asked(alone, "groups", row).height == 1
