from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import groupby, pairwise

import numpy as np
import polars as pl
import pytest

from headrace.core.batch import ORDER_SCHEMA, TS
from headrace.state import ordered_rows, row_groups
from headrace.state.ordered_rows import INPUT, by_key_range, released
from headrace.state.row_groups import KeyOrder

ORDER = KeyOrder(("key",), 12)
KEYS: dict[str, tuple[pl.DataType, list[object]]] = {
    "bool": (pl.Boolean(), [None, False, True]),
    "int32": (pl.Int32(), [None, -1, 0, 1 << 30]),
    "float32": (pl.Float32(), [None, -1.5, 0.0, float("nan")]),
    "decimal": (pl.Decimal(10, 2), [None, Decimal("-0.01"), Decimal("3.20")]),
    "binary": (pl.Binary(), [None, b"", b"\x00", b"\xff more than twelve bytes"]),
    "date": (pl.Date(), [None, date(1970, 1, 1), date(2026, 3, 1)]),
    "timestamp": (pl.Datetime("us", "UTC"), [None, datetime(2026, 3, 1, tzinfo=UTC)]),
}


def rows_of(count: int, dtype: pl.DataType, values: Sequence[object], times: int) -> pl.DataFrame:
    random = np.random.default_rng(count)
    return pl.DataFrame(
        {
            "key": pl.Series([values[number] for number in random.integers(0, len(values), count)], dtype=dtype),
            TS: random.integers(-times, times, count),
            "__o_node": random.choice(["orders", "rates"], count),
            "__o_text": ["topic"] * count,
            "__o_major": random.integers(0, 3, count),
            "__o_minor": random.permutation(count),
            "__o_index": [0] * count,
            INPUT: pl.Series([0] * count, dtype=pl.Int16),
        },
        schema_overrides=ORDER_SCHEMA,
    )


@pytest.mark.parametrize("bits", [64, 0])
@pytest.mark.parametrize("name", KEYS)
def test_keys_of_every_type_come_one_after_the_other(name: str, bits: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where all keys have one hash: then in their order."""
    dtype, values = KEYS[name]
    if not bits:
        monkeypatch.setattr(row_groups, "key_hash", lambda rows, _: np.zeros(rows.height, np.uint64))
    rows = pl.concat(released(rows_of(200, dtype, values, times=9), ORDER))
    texts = [repr(key) for key in rows["key"].to_list()]
    keys = [key for key, _ in groupby(texts)]
    assert len(keys) == len(values)
    assert bits or keys == [repr(value) for value in pl.Series(values, dtype=dtype).to_list()]
    placed = list(zip(texts, rows.drop("key").rows(), strict=True))
    for _, own in groupby(placed, key=lambda pair: pair[0]):
        assert (places := [place for _, place in own]) == sorted(places)


def test_ranges_of_keys_have_all_rows_and_no_key_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_rows, "ROWS_SORTED_MAX", 1_000)
    rows = rows_of(20_000, pl.Int64(), list(range(500)), times=1 << 40)
    ranges = [pl.concat(parts) for parts in by_key_range(list(rows.iter_slices(700)), ORDER)]
    assert 15 <= len(ranges) <= 20
    assert max(part.height for part in ranges) < 2_000
    assert sum(part["key"].n_unique() for part in ranges) == 500
    assert pl.concat(ranges).sort("__o_minor").equals(rows.sort("__o_minor"))
    places = [ORDER.places(part) for part in ranges]
    assert all(before.max() < after.min() for before, after in pairwise(places))


def test_frames_have_few_rows_but_all_of_a_key_and_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ordered_rows, "ROWS_RELEASED_MAX", 10)
    frames = list(released(rows_of(300, pl.Int64(), [1, 2], times=1_000), ORDER))
    assert [frame.height <= 10 for frame in frames] == [True] * len(frames)
    assert len(frames) <= 40
    alike = list(released(rows_of(300, pl.Int64(), [1, 2], times=1), ORDER))
    assert len(alike) == 4, "two keys at two times"
