"""Row groups of state files: sorted by key group and hash, described and verified by the footer."""

from __future__ import annotations

import io
from itertools import pairwise

import polars as pl
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import InternalError
from headrace.core.keygroups import key_groups, key_hash
from headrace.state.parquet import (
    checksum,
    damaged_row_group,
    footer_bytes,
    read_row_groups,
    row_groups_of,
    write_chunks,
)
from headrace.state.row_groups import ROW_GROUP_ROWS_MAX, KeyOrder, cuts, key_order
from headrace.state.snapshot import Chunk, StateKind, StateSnapshot

ORDER = KeyOrder(("k",), 12)
ROWS = 2 * ROW_GROUP_ROWS_MAX + 1
MANY = pl.DataFrame({"k": range(ROWS), "v": [f"value {number}" for number in range(ROWS)]})


def test_a_chunk_is_cut_into_row_groups_of_about_one_size() -> None:
    assert cuts(1) == [(0, 1)]
    assert cuts(ROW_GROUP_ROWS_MAX) == [(0, ROW_GROUP_ROWS_MAX)]
    assert [rows for _, rows in cuts(ROWS)] == [5461, 5462, 5462]
    (file,) = write_chunks([Chunk(4, MANY), Chunk(2, MANY.head(3))])
    assert file.row_groups == {4: range(3), 2: range(3, 4)}
    assert file.rows == (5461, 5462, 5462, 3)
    assert [frame.equals(rows) for frame, rows in zip(read_row_groups(file.data), [MANY, MANY.head(3)], strict=True)]
    first, second = read_row_groups(file.data, [1, 2, 3])
    assert first.equals(MANY[5461:])
    assert second.equals(MANY.head(3))


def test_chunks_that_lack_columns_do_so_in_each_row_group() -> None:
    narrow = MANY.drop("v")
    (file,) = write_chunks([Chunk(1, MANY), Chunk(2, narrow)])
    whole, lacking = read_row_groups(file.data)
    assert whole.equals(MANY)
    assert lacking.equals(narrow)
    (last,) = read_row_groups(file.data, [5])
    assert last.columns == ["k"]


@given(st.lists(st.lists(st.integers(0, 60) | st.none(), max_size=30), max_size=4))
def test_keyed_rows_are_sorted_by_key_group_and_hash(chunks: list[list[int | None]]) -> None:
    frames = [pl.DataFrame({"k": rows}, schema={"k": pl.Int64}) for rows in chunks]
    for file in write_chunks([Chunk(number, frame) for number, frame in enumerate(frames)], ORDER):
        described = row_groups_of(file.data)
        assert described is not None
        assert described.max_parallelism == 12
        stored = read_row_groups(file.data)
        assert [frame.sort("k").equals(rows.sort("k")) for frame, rows in zip(stored, filter(len, frames), strict=True)]
        for group, frame in zip(described.groups, stored, strict=True):
            places = list(
                zip(key_groups(frame, ["k"], 12).tolist(), (key_hash(frame, ["k"]) >> 16).tolist(), strict=True)
            )
            assert places == sorted(places)
            assert (group.first, group.last) == (places[0], places[-1])


def test_rows_in_order_are_not_sorted_again() -> None:
    once = ORDER.sort(MANY)
    assert not once.frame.equals(MANY)
    again = ORDER.sort(once.frame)
    assert again.frame is once.frame
    assert (again.places == once.places).all()


def test_the_footer_has_place_and_checksum_of_each_row_group() -> None:
    (file,) = write_chunks([Chunk(1, MANY), Chunk(2, MANY.head(5))], ORDER)
    described = row_groups_of(file.data)
    assert described is not None
    parquet = pq.ParquetFile(io.BytesIO(file.data)).metadata
    assert [group.chunk for group in described.groups] == [0, 0, 0, 1]
    assert [group.rows for group in described.groups] == list(file.rows)
    for number, group in enumerate(described.groups):
        columns = [parquet.row_group(number).column(column) for column in range(parquet.num_columns)]
        assert group.offset == min(column.data_page_offset for column in columns)
        assert group.bytes == sum(column.total_compressed_size for column in columns)
        assert group.checksum == checksum(file.data[group.offset : group.offset + group.bytes])
    spans = [(group.first, group.last) for group in described.groups[:3]]
    assert all(before[1] <= after[0] for before, after in pairwise(spans) if before[1] and after[0])


def test_only_keyed_states_with_keys_are_sorted() -> None:
    chunks = (Chunk(1, MANY),)
    assert key_order(StateSnapshot("s", StateKind.KEYED, ("k",), chunks), 12) == ORDER
    for kind, keys in [
        (StateKind.KEYED, ()),
        (StateKind.LIST, ("k",)),
        (StateKind.UNION, ()),
        (StateKind.BROADCAST, ()),
    ]:
        assert key_order(StateSnapshot("s", kind, keys, chunks), 12) is None
    (file,) = write_chunks(chunks)
    described = row_groups_of(file.data)
    assert described is not None
    assert described.max_parallelism is None
    assert {(group.first, group.describe()) for group in described.groups} == {(None, "rows without a key")}


def test_every_altered_byte_of_row_groups_and_footer_is_found() -> None:
    (file,) = write_chunks([Chunk(1, MANY)], ORDER)
    assert damaged_row_group(file.data) is None
    described = row_groups_of(file.data)
    assert described is not None
    second = described.groups[1]
    altered = bytearray(file.data)
    altered[second.offset] ^= 1
    assert damaged_row_group(bytes(altered)) == "row group 1, key groups 4-8"
    size = footer_bytes(file.data[-8:])
    for place in range(len(file.data) - size, len(file.data), 13):
        altered = bytearray(file.data)
        altered[place] ^= 1
        if b"headrace.row_groups" in altered:  # else it looks like a file of an earlier version, which is read whole
            assert damaged_row_group(bytes(altered)) == "its footer", place


def test_files_of_earlier_versions_have_no_description() -> None:
    out = io.BytesIO()
    MANY.write_parquet(out)
    assert row_groups_of(out.getvalue()) is None
    assert damaged_row_group(out.getvalue()) is None
    with pytest.raises(InternalError, match="footer that cannot be read"):
        row_groups_of(b"no parquet at all")
