"""How many records a producer may queue at once."""

from __future__ import annotations

import pyarrow as pa
import pytest

from headrace_connectors.kafka.sink.records import QUEUED_BYTES_MAX, QUEUED_ROWS_MAX, Records, rows_allowed

SIZE = 500_000
LARGE = pa.array([b"x" * SIZE] * 4, pa.large_binary())
NOTHING = pa.array([None] * 4, pa.large_binary())


@pytest.mark.parametrize(
    "records",
    [
        Records(LARGE),
        Records(NOTHING, LARGE),
        Records(NOTHING, headers=[[("a", b"x" * SIZE)]] * 4),
        Records(NOTHING, headers=[[("x" * SIZE, None)]] * 4),
    ],
    ids=["values", "keys", "header values", "header names"],
)
def test_all_columns_count(records: Records) -> None:
    assert 4 * SIZE <= records.nbytes < 4 * SIZE + 100
    assert QUEUED_BYTES_MAX - 2 * SIZE < rows_allowed(records) * SIZE <= QUEUED_BYTES_MAX
    assert records.slice(1, 2).nbytes < 2 * SIZE + 100


def test_one_row_may_always_be_queued() -> None:
    row = Records(pa.array([bytes(QUEUED_BYTES_MAX + 1)], pa.large_binary()))
    assert rows_allowed(row) == 1


def test_rows_have_a_bound_too() -> None:
    assert rows_allowed(Records(NOTHING)) == QUEUED_ROWS_MAX
