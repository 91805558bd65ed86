"""State in Parquet: what comes back is what was written, bit for bit, and others can read it too."""

from __future__ import annotations

import io
import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InternalError
from headrace.state.parquet import checksum, read_row_groups, write_chunks, write_table
from headrace.state.snapshot import Chunk
from support.suite.properties import weighted

WIDE = pl.DataFrame(
    {
        "whole": pl.Series([10**37 * 9, -(10**37), None], dtype=pl.Int128),
        "float": [math.nan, -0.0, None],
        "single": pl.Series([5e-40, math.inf, None], dtype=pl.Float32),
        "money": pl.Series([Decimal("-1.20"), Decimal(10) ** 35, None], dtype=pl.Decimal(38, 2)),
        "text": ["", "ä\0", None],
        "bytes": [b"", b"\xff\0", None],
        "flag": [True, False, None],
        "small": pl.Series([-1, 2**31 - 1, None], dtype=pl.Int32),
        "day": pl.Series([date(1969, 1, 1), date(9999, 1, 1), None], dtype=pl.Date),
        "at": pl.Series(
            [datetime(1900, 1, 1, 0, 0, 0, 1, UTC), datetime(2262, 5, 1, tzinfo=UTC), None],
            dtype=pl.Datetime("us", "UTC"),
        ),
        "nested": pl.Series(
            [[{"a": 1, "b": [b"x", None]}], [], None],
            dtype=pl.List(pl.Struct({"a": pl.Int32, "b": pl.List(pl.Binary)})),
        ),
        "pair": pl.Series([{"x": None}, {"x": 1.5}, None], dtype=pl.Struct({"x": pl.Float64})),
    }
)


def test_every_type_comes_back_as_it_was() -> None:
    (file,) = write_chunks([Chunk(7, WIDE)])
    assert file.row_groups == {7: range(1)}
    assert file.rows == (3,)
    assert file.columns == {name: str(dtype) for name, dtype in WIDE.schema.items()}
    (found,) = read_row_groups(file.data)
    assert found.schema == WIDE.schema
    assert found.equals(WIDE)
    zero = found.get_column("float")[1]
    assert struct.pack(">d", zero) == struct.pack(">d", -0.0)


def test_chunks_may_differ_in_columns_and_are_read_by_number() -> None:
    one, other = WIDE.select("whole", "text"), WIDE.select("float", "whole").head(1)
    (file,) = write_chunks([Chunk(5, one), Chunk(2, other), Chunk(9, one.clear())])
    assert file.row_groups == {5: range(1), 2: range(1, 2)}
    assert file.rows == (3, 1)
    second, first = read_row_groups(file.data, [*file.row_groups[2], *file.row_groups[5]])
    assert set(first.columns) == {"whole", "text"}
    assert first.equals(one.select(first.columns))
    assert second.equals(other.select(second.columns))


def test_a_column_of_two_types_takes_two_files() -> None:
    files = list(write_chunks([Chunk(1, pl.DataFrame({"a": [1]})), Chunk(2, pl.DataFrame({"a": ["x"]}))]))
    assert [file.row_groups for file in files] == [{1: range(1)}, {2: range(1)}]
    assert list(write_chunks([])) == []


def test_others_can_read_it() -> None:
    (file,) = write_table([WIDE, WIDE.head(1)])
    read = pl.read_parquet(io.BytesIO(file.data))
    assert read.height == 4
    assert read.get_column("whole").dtype == pl.Decimal(38, 0)
    assert read.drop("whole").equals(pl.concat([WIDE, WIDE.head(1)]).drop("whole"))
    types = {field.name: str(field.type) for field in pq.read_schema(io.BytesIO(file.data))}
    assert types["at"] == "timestamp[us, tz=UTC]"
    assert types["whole"] == "decimal128(38, 0)"
    assert not any("dictionary" in kind for kind in types.values())


@weighted(0.2)
@given(st.lists(st.lists(st.integers(-(10**38) + 1, 10**38 - 1) | st.none(), max_size=5), max_size=5))
def test_whole_numbers_of_128_bits_survive(chunks: list[list[int | None]]) -> None:
    frames = [pl.DataFrame({"n": numbers}, schema={"n": pl.Int128}) for numbers in chunks]
    files = write_chunks(Chunk(number, frame) for number, frame in enumerate(frames))
    found = [frame for file in files for frame in read_row_groups(file.data)]
    assert [frame.get_column("n").to_list() for frame in found] == [numbers for numbers in chunks if numbers]


def test_bytes_that_are_no_state_are_refused() -> None:
    (file,) = write_chunks([Chunk(1, WIDE)])
    for data in (b"", b"PAR1 and nothing", file.data[: len(file.data) // 2]):
        with pytest.raises(InternalError, match="cannot be read"):
            read_row_groups(data)


def test_the_checksum_is_the_published_one() -> None:
    assert checksum(b"") == "xxh64:ef46db3751d8e999"
    assert checksum(b"abc") == "xxh64:44bc2cf5ad770999"
