"""What is said about a bad row, and where it goes."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.batch import O_INDEX, O_MAJOR, O_MINOR, O_NODE, O_TEXT, OP
from headrace.core.errors import DataError
from headrace.core.types import Primitive
from headrace.expr.compiled import CompiledScalar
from headrace.operators.operator import OnError
from headrace.operators.row_errors import RowErrors, failed_rows, shown_row
from support.oracles.collector import Collected


def scalar(text: str, *columns: str) -> CompiledScalar:
    """An expression of which only the text and the columns matter here."""
    return CompiledScalar(text, Primitive.INT64, True, pl.lit(0), None, frozenset(columns))


BATCH = pl.DataFrame({"x": ["1", "abc", None, "9" * 200], "y": [1, 2, 3, 4], "__ts": [10, 11, 12, 13]})


def mask(*failed: int) -> pl.Series:
    return pl.Series([number in failed for number in range(BATCH.height)])


def test_reasons_name_the_expression_and_what_it_read() -> None:
    bad = failed_rows(
        BATCH,
        [
            (scalar("cast(x as int64)", "x"), mask(1, 3)),
            (scalar("cast(x as decimal(10,2))", "x"), mask(0)),
            (scalar("cast(x as int64) // y", "x", "y"), mask(1, 2)),
        ],
    )
    assert bad[0] == "cast(x as decimal(10,2)): cannot convert '1'"
    assert bad[1] == "cast(x as int64): cannot convert 'abc'"
    assert bad[2] == "cast(x as int64) // y: no result for x=NULL, y=3"
    assert bad[3].endswith("99..")
    assert len(bad[3]) < 120
    assert failed_rows(BATCH, [(scalar("1 // 0"), mask(2))]) == {2: "1 // 0: no result"}
    assert failed_rows(BATCH, [(scalar("x", "x"), pl.Series([None, None, None, True]))]).keys() == {3}


def test_deletes_are_never_bad() -> None:
    batch = BATCH.with_columns(pl.Series(OP, [False, True, False, True]))
    assert failed_rows(batch, [(scalar("x", "x"), mask(0, 1, 3))]).keys() == {0}


def test_values_are_shown_as_people_write_them() -> None:
    row = pl.DataFrame({"a": [None], "b": [True], "c": [1.5], "d": [b"\x00"], "e": [[1, 2]], "f": ["it's"]}).row(
        0, named=True
    )
    assert shown_row(row) == "a=NULL, b=true, c=1.5, d=b'\\x00', e=[1, 2], f=\"it's\""


def test_skip_counts_and_divert_gives_input_reason_and_hidden_columns() -> None:
    batch = BATCH.with_columns(pl.lit(value=False).alias(OP))
    bad = {3: "late reason", 1: "early reason"}
    skipped, diverted = Collected(), Collected()
    expected = [True, False, True, False]
    assert RowErrors("n", OnError.SKIP).reject(batch, bad, skipped).to_list() == expected
    assert RowErrors("n", OnError.DIVERT).reject(batch, bad, diverted).to_list() == expected
    assert skipped.counters == diverted.counters == {"bad": 2}
    assert not skipped.sides
    (rows,) = diverted.sides["bad"]
    assert rows.columns == ["x", "y", "reason", "__ts"]
    assert rows.rows() == [("abc", 2, "early reason", 11), ("9" * 200, 4, "late reason", 13)]


def test_fail_names_the_step_the_reason_and_the_row() -> None:
    cause = ValueError("deep")
    with pytest.raises(DataError) as caught:
        RowErrors("parsed", OnError.FAIL).reject(
            BATCH, {3: "other", 1: "cast(x as int64): no"}, Collected(), cause=cause
        )
    assert caught.value.message == "step 'parsed' failed: cast(x as int64): no\n  row: x='abc', y=2"
    assert "on_error" in str(caught.value)
    assert caught.value.__cause__ is cause


def test_a_failed_row_shows_lists_on_one_line() -> None:
    row = pl.DataFrame({"l": [[1, None]], "o": [{"u": [2]}]})
    with pytest.raises(DataError) as caught:
        RowErrors("n", OnError.FAIL).reject(row, {0: "why"}, Collected())
    assert caught.value.message.splitlines()[1] == "  row: l=[1, None], o={'u': [2]}"


def placed(text: str | None, major: int | None, minor: int, index: int | None) -> str:
    """The message about a row with these order columns."""
    batch = pl.DataFrame(
        {"x": ["a"], O_NODE: ["src"], O_TEXT: [text], O_MAJOR: [major], O_MINOR: [minor], O_INDEX: [index]}
    )
    with pytest.raises(DataError) as caught:
        RowErrors("n", OnError.FAIL).reject(batch, {0: "why"}, Collected())
    return caught.value.message.splitlines()[0]


def test_fail_names_the_source_position() -> None:
    assert placed("flights", 2, 17, 0) == "step 'n' failed at flights[2] offset 17: why"
    assert placed("flights", 2, 17, None) == "step 'n' failed at flights[2] offset 17: why"
    assert (
        placed("flights", 2, 17, 3)
        == "step 'n' failed at flights[2] offset 17, place 3 among the rows made from it: why"
    )
    made = placed('{"origin":"EWR"}', 1_357_016_400_000, 0, 0)
    assert made == (
        "step 'n' failed at the row of 'src' with key {\"origin\":\"EWR\"}, "
        "window start 2013-01-01T05:00:00.000+00:00: why"
    )
    assert "window start none" in placed("[]", None, 0, 0)
    assert f"window start {2**62} ms" in placed("[]", 2**62, 0, 0)


def test_long_rows_are_cut() -> None:
    wide = pl.DataFrame({f"column_{number}": ["z" * 500] for number in range(100)})
    with pytest.raises(DataError) as caught:
        RowErrors("n", OnError.FAIL).reject(wide, {0: "why"}, Collected())
    assert len(caught.value.message) < 1_200


def test_a_column_named_reason_gives_way() -> None:
    out = Collected()
    batch = pl.DataFrame({"reason": [1], "x": [2], "__ts": [3]})
    RowErrors("n", OnError.DIVERT).reject(batch, {0: "why"}, out)
    assert out.sides["bad"][0].rows(named=True) == [{"x": 2, "reason": "why", "__ts": 3}]
    assert out.sides["bad"][0].columns == ["x", "reason", "__ts"]
