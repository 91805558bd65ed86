"""Sums of squares out of rounded values: never fewer than can be, and exact where what is given is."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.operators.aggregates.given import SquaresOf
from headrace.operators.bootstrap.spread import GivenSpread, ImpossibleSpreadError

FLOATS = st.floats(min_value=-1e150, max_value=1e150, allow_nan=False)
VALUES = st.lists(st.one_of(FLOATS, st.sampled_from([0.1, 0.1, 1e9 + 0.25, 5e-324, 0.0])), min_size=1, max_size=7)


def squares_of(*, deviations: bool, unit: int | None = None) -> SquaresOf:
    return SquaresOf("s", deviations, "rows", "total", unit)


def spread(values: Sequence[float], given: float, *, deviations: bool) -> GivenSpread:
    count, total = pl.Series([len(values)]), pl.Series([sum(values)])
    return GivenSpread(squares_of(deviations=deviations), count, total, pl.Series([given]))


def kept(rows: GivenSpread) -> Fraction:
    """The number that the state columns hold."""
    columns = {int(column.name.rpartition(".e")[2]): column.item() for column in rows.columns()}
    assert all(column.dtype == pl.Int64 for column in rows.columns())
    assert all(0 <= digit < 1 << 32 for digit in columns.values())
    return sum((digit * Fraction(2) ** exponent for exponent, digit in columns.items()), Fraction(0))


@given(VALUES)
def test_squares_of_floats_are_what_was_given_or_the_least_that_can_be(values: list[float]) -> None:
    squares = sum(value * value for value in values)
    least = Fraction(sum(values)) ** 2 / len(values)
    try:
        found = kept(spread(values, squares, deviations=False))
    except ImpossibleSpreadError:
        assert squares < 1e-300, "squares that vanished"
        return
    assert found >= least
    if Fraction(squares) >= least:
        assert found == Fraction(squares)
    else:
        assert found - least <= least / 2**180


@given(VALUES, st.floats(min_value=0, max_value=1e300))
def test_deviations_are_kept_to_more_bits_than_they_have(values: list[float], deviations: float) -> None:
    least = Fraction(sum(values)) ** 2 / len(values)
    found = kept(spread(values, deviations, deviations=True)) - least
    assert 0 <= found - Fraction(deviations) <= (least + Fraction(deviations)) / 2**180


WHOLE = st.lists(st.integers(-(10**6), 10**6), min_size=1, max_size=9)


@given(WHOLE)
def test_whole_numbers_come_back_exactly_from_rounded_deviations(values: list[int]) -> None:
    mean = Fraction(sum(values), len(values))
    deviations = float(sum((value - mean) ** 2 for value in values)) / 100  # of decimals with one digit
    total = pl.Series([sum(values)], dtype=pl.Decimal(38, 0)).cast(pl.Decimal(38, 1)) / 10
    rows = GivenSpread(
        squares_of(deviations=True, unit=10),
        pl.Series([len(values)]),
        total.cast(pl.Decimal(38, 1)),
        pl.Series([deviations]),
    )
    assert rows.squares() == [(sum(value * value for value in values), 0)]


@pytest.mark.parametrize("number", [0, 1, (1 << 63) - 1, 1 << 63, 10**37])
def test_whole_numbers_of_any_size_are_cut(number: int) -> None:
    one, total = pl.Series([1]), pl.Series([0], dtype=pl.Decimal(38, 0))
    squares = pl.Series([number], dtype=pl.Int128).cast(pl.Decimal(38, 0))
    columns = GivenSpread(squares_of(deviations=False, unit=1), one, total, squares).columns()
    assert all(column.dtype == pl.Int128 for column in columns)
    assert sum(column.item() << int(column.name.rpartition(".e")[2]) for column in columns) == number


def test_rows_in_which_nothing_counts_or_is_finite_keep_nothing() -> None:
    rows = GivenSpread(
        squares_of(deviations=False),
        pl.Series([0, 2, 2, 2]),
        pl.Series([None, float("nan"), float("inf"), 1.0]),
        pl.Series([None, 1.0, float("inf"), 1.0]),
    )
    assert rows.squares()[:3] == [None, None, None]
    assert [column.to_list() for column in rows.columns()] == [[0, 0, 0, 1]]
