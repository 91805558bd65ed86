"""The difference of two cuts: against plain Python, by key group or at once, and where columns differ."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.checkpoint.inspection import views
from headrace.checkpoint.inspection.difference import StateDifference, differences
from headrace.checkpoint.manifest import Manifest, located
from headrace.core.errors import UserError
from support.storage.cuts import HOURLY, TOTALS, cut, renamed, sales, without_definitions
from support.suite.properties import weighted

FIRST = sales(600)


def counts(found: StateDifference) -> tuple[int, int, int]:
    return found.added, found.removed, found.changed


def by_name(before: Manifest, after: Manifest, *, examples_max: int = 0) -> dict[tuple[str, str], StateDifference]:
    found = differences(before, after, examples_max=examples_max)
    return {(each.node, each.state): each for each in found}


def made(folder: Path, *batches: pl.DataFrame, **about: object) -> Manifest:
    folder.mkdir(exist_ok=True)
    return located(cut(folder, *batches, **about), str(folder))  # type: ignore[arg-type]


keys = st.dictionaries(
    st.tuples(st.sampled_from(["a", "b", "c", None]), st.integers(0, 5)), st.integers(1, 3), min_size=1, max_size=12
)


def rows_of(wanted: dict[tuple[str | None, int], int]) -> pl.DataFrame:
    """Rows that make these counts by key."""
    rows = [(shop, till, 1.0, "x", 0) for (shop, till), count in wanted.items() for _ in range(count)]
    return pl.DataFrame(rows, schema=["shop", "till", "price", "item", "__ts"], orient="row").with_columns(
        pl.col("shop").cast(pl.String)
    )


@weighted(0.2)
@given(keys, keys, st.sampled_from([1, 1_000]), st.booleans())
def test_it_is_that_of_plain_python(
    tmp_path_factory: pytest.TempPathFactory,
    before: dict[tuple[str | None, int], int],
    after: dict[tuple[str | None, int], int],
    piece: int,
    defined: bool,
) -> None:
    folder = tmp_path_factory.mktemp("cuts")
    step = renamed(TOTALS, n="count(*)")
    sides = [
        made(folder / name, rows_of(side), steps=[step], of=of)
        for name, side, of in (("a", before, 2), ("b", after, 3))
    ]
    if not defined:
        sides = [without_definitions(side) for side in sides]
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(views, "PIECE_ROWS", piece)
        found = by_name(*sides)["totals", "groups"]
    assert counts(found) == (
        len(after.keys() - before.keys()),
        len(before.keys() - after.keys()),
        sum(before[key] != after[key] for key in before.keys() & after.keys()),
    )
    assert (found.rows_before, found.rows_after) == (len(before), len(after))
    assert found.keys == ("shop", "till")


def test_rows_and_columns_that_differ_are_named(tmp_path: Path) -> None:
    before = made(tmp_path / "a", FIRST, epoch=5)
    more = pl.DataFrame(
        {"shop": ["north", "east"], "till": [0, 1], "price": [9.0, 1.0], "item": ["0", "x"], "__ts": [0, 0]}
    )
    after = made(tmp_path / "b", FIRST, more, epoch=6)
    found = by_name(before, after, examples_max=2)
    totals = found["totals", "groups"]
    assert counts(totals) == (1, 0, 1)
    assert totals.columns == {"n": 1, "total": 1, "mean": 1}
    assert [change for change, _, _ in totals.examples] == ["added", "changed"]
    _, was, now = totals.examples[1]
    assert (was["n"], now["n"]) == (now["n"] - 1, was["n"] + 1)  # type: ignore[operator]
    hours = found["hourly", "windows"]
    assert hours.keys == ("shop", "window_start", "window_end")
    assert (counts(hours), hours.columns) == ((1, 0, 1), {"n": 1, "best": 1})
    positions = found["sales", "positions"]
    assert (counts(positions), positions.columns) == ((0, 0, 1), {"position": 1})
    assert found["totals", "time"].is_same


def test_a_cut_is_equal_to_itself_in_other_files(tmp_path: Path) -> None:
    whole, halves = made(tmp_path / "a", FIRST, of=1), made(tmp_path / "b", FIRST[:200], FIRST[200:], of=3)
    differing = [each.state for each in differences(whole, halves) if not each.is_same]
    # a row for each subtask
    assert differing == ["time", "time"]


def test_other_columns_are_named_and_not_compared(tmp_path: Path) -> None:
    before = made(tmp_path / "a", FIRST, steps=[renamed(TOTALS, n="count(*)", low="min(price)")])
    after = made(tmp_path / "b", FIRST, steps=[renamed(TOTALS, n="count(*)", high="max(price)")])
    (found,) = [each for each in differences(before, after, "totals") if each.state == "groups"]
    assert (counts(found), found.only_before, found.only_after) == ((0, 0, 0), ("low",), ("high",))
    assert not found.is_same


def test_a_step_that_one_of_them_lacks(tmp_path: Path) -> None:
    before, after = made(tmp_path / "a", FIRST, steps=[TOTALS]), made(tmp_path / "b", FIRST, steps=[TOTALS, HOURLY])
    found = by_name(before, after)["hourly", "windows"]
    assert (found.removed, found.changed) == (0, 0)
    assert found.added == found.rows_after > 0
    with pytest.raises(UserError, match=r"neither holds state of a node 'hurly'(.|\n)*did you mean 'hourly'"):
        list(differences(before, after, "hurly"))
