"""Bounds follow what the reader gets done in a second."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headrace.exchange.edge.adaptive_bounds import BYTES_LEAST, ROWS_FIRST, ROWS_LEAST, AdaptiveBounds, ChannelBounds
from support.suite.properties import weighted

MOST = ChannelBounds(rows_max=100_000, bytes_max=10_000_000)


def test_a_slow_reader_gets_about_a_second_of_rows() -> None:
    bounds = AdaptiveBounds(MOST)
    assert bounds.current.rows_max == ROWS_FIRST
    for _ in range(10):
        bounds.on_served(500, 50_000, 0.5)
    assert 800 <= bounds.current.rows_max <= 1_200
    assert bounds.current.bytes_max == BYTES_LEAST


def test_a_fast_reader_gets_the_most_and_a_stuck_one_the_least() -> None:
    bounds = AdaptiveBounds(MOST)
    assert bounds.on_served(1_000_000, 100_000_000, 0.1)
    assert bounds.current == MOST
    for _ in range(5):
        bounds.on_served(1, 100, 10.0)
    assert ROWS_LEAST <= bounds.current.rows_max <= ROWS_LEAST * 5 // 4
    assert bounds.current.bytes_max == BYTES_LEAST


def test_small_changes_of_the_rate_change_nothing() -> None:
    bounds = AdaptiveBounds(MOST)
    bounds.on_served(5_000, 5_000_000, 1.0)
    before = bounds.current
    assert not any(bounds.on_served(rows, rows * 1_000, 1.0) for rows in (5_500, 4_500, 5_900, 5_100))
    assert bounds.current is before


def test_what_took_no_time_is_counted_when_time_has_passed() -> None:
    bounds = AdaptiveBounds(MOST)
    assert not any(bounds.on_served(10, 1_000, 0.001) for _ in range(19))
    bounds.on_served(10, 1_000, 0.001)
    bounds.on_served(10, 1_000, 0.001)
    assert 9_000 <= bounds.current.rows_max <= 11_000


def test_a_reader_that_takes_no_time_is_soon_known_to_be_fast() -> None:
    bounds = AdaptiveBounds(MOST)
    for _ in range(4):
        bounds.on_served(ROWS_FIRST, 50 * ROWS_FIRST, 0.0)
    assert bounds.current.rows_max == MOST.rows_max


def test_a_most_below_the_least_holds() -> None:
    bounds = AdaptiveBounds(ChannelBounds(rows_max=3, bytes_max=10))
    assert bounds.current == ChannelBounds(3, 10)
    bounds.on_served(1_000, 1_000_000, 1.0)
    assert bounds.current == ChannelBounds(3, 10)


@given(
    st.integers(1, 200_000),
    st.integers(1, 1 << 30),
    st.integers(0, 100_000),
    st.integers(0, 1 << 32),
)
@weighted(4)
def test_a_batch_goes_in_pieces_of_at_least_a_row(rows_max: int, bytes_max: int, rows: int, size: int) -> None:
    piece = ChannelBounds(rows_max, bytes_max).piece_rows(rows, size)
    assert min(rows, 1) <= piece <= rows
    assert piece <= max(rows_max, ROWS_LEAST)
    assert piece <= 1 or piece * size <= bytes_max * rows
