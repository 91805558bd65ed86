"""A lost, doubled or changed row is found, whatever the order of rows."""

from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from peers.check import WrongOutputError, parsed, require_equal

SCHEMA: dict[str, pl.DataType] = {"k": pl.Int64(), "tags": pl.List(pl.String()), "s": pl.Float64()}
ROWS = pl.DataFrame(
    {"k": [1, 2, 3, 3], "tags": [["a"], None, [], []], "s": [0.5, None, 1e300, 1e300]},
    schema=SCHEMA,
)


@given(st.permutations(range(4)))
def test_order_does_not_matter(order: list[int]) -> None:
    require_equal(ROWS[order], ROWS)


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(ROWS.head(3), id="lost"),
        pytest.param(pl.concat([ROWS, ROWS.head(1)]), id="doubled"),
        pytest.param(pl.concat([ROWS.head(3), ROWS.head(1)]), id="one lost and one doubled"),
        pytest.param(ROWS.with_columns(tags=pl.lit(None, pl.List(pl.String()))), id="a list is missing"),
        pytest.param(ROWS.with_columns(s=pl.col("s").fill_null(0.0)), id="a value where there is none"),
        pytest.param(ROWS.with_columns(s=pl.col("s") + 1e-16), id="one bit"),
    ],
)
def test_differences_are_found(found: pl.DataFrame) -> None:
    if found.equals(ROWS):
        found = ROWS.with_columns(s=pl.col("s") * (1 + 2**-52))
    with pytest.raises(WrongOutputError):
        require_equal(found, ROWS)


@pytest.mark.parametrize("factor", [1 - 1e-12, 1 + 1e-12])
def test_sums_may_differ_by_the_order_of_additions(factor: float) -> None:
    found = ROWS.drop_nulls("s").with_columns(s=pl.col("s") * factor)
    require_equal(found, ROWS.drop_nulls("s"), sums=("s",))


@pytest.mark.parametrize("value", [0.5000001, float("nan"), None])
def test_sums_may_differ_by_no_more(value: float | None) -> None:
    found = pl.DataFrame({"k": [1], "s": [value]}, schema={"k": pl.Int64(), "s": pl.Float64()})
    with pytest.raises(WrongOutputError, match="1 of 1 rows differ"):
        require_equal(found, pl.DataFrame({"k": [1], "s": [0.5]}), sums=("s",))


def test_messages_become_rows() -> None:
    chunks = [[b'{"k":1,"tags":["a"],"s":0.5}', b'{"k":2}'], [], [b'{"k":3,"tags":[],"s":1e300,"more":1}']]
    assert parsed(chunks, SCHEMA).equals(ROWS.head(3))
    assert parsed([], SCHEMA).equals(ROWS.clear())
