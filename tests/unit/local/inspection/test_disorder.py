"""How far rows come out of order, by partition, and the bound that is proposed."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.types import TIMESTAMP, Timestamp
from headrace.local.inspection.disorder import QUANTILE, Disorder, measured, time_ms


def test_partitions_do_not_delay_each_other() -> None:
    assert measured([(0, 100_000), (1, 5_000), (0, 101_000), (1, 6_000)]) == Disorder(4, 0, 0, 0)


def test_a_row_is_late_by_the_newest_time_before_it() -> None:
    assert measured([(0, 10_000), (0, 2_500), (0, 11_000)]) == Disorder(3, 10_000, 0, 7_500)


def test_few_rows_that_are_very_late_do_not_set_the_bound() -> None:
    times = [(0, number * 1_000) for number in range(3_000)]
    times[2_000] = (0, 0)
    assert measured(times) == Disorder(3_000, 0, 1, 1_999_000)


def test_no_times_are_no_measurement() -> None:
    assert measured([]) is None


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 10**9)), min_size=1, max_size=50))
def test_the_bound_keeps_its_share_of_rows(times: list[tuple[int, int]]) -> None:
    newest: dict[int, int] = {}
    delays = []
    for partition, at in times:
        newest[partition] = max(newest.get(partition, at), at)
        delays.append(newest[partition] - at)
    found = measured(times)
    assert found is not None
    assert found.late == sum(delay > found.bound_ms for delay in delays)
    assert found.late <= (1 - QUANTILE) * len(times) + 1e-9
    assert found.longest_ms == max(delays)


@pytest.mark.parametrize(
    ("value", "dtype", "expected"),
    [
        ("1970-01-01T00:00:01Z", TIMESTAMP, 1_000),
        ("1970-01-01 00:00:01", TIMESTAMP, 1_000),
        (7, Timestamp("s"), 7_000),
        (7, TIMESTAMP, 7),
        (datetime(1970, 1, 1, 0, 0, 2, tzinfo=UTC), TIMESTAMP, 2_000),
        ("soon", TIMESTAMP, None),
        (None, TIMESTAMP, None),
    ],
)
def test_times_of_samples(value: object, dtype: Timestamp, expected: int | None) -> None:
    assert time_ms(value, dtype) == expected
