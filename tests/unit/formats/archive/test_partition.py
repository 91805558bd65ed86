"""Files written and read back: over overlaps, holes, stops, in a folder and in an object store."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ExternalError, UserError
from headrace.formats.archive.folder import ArchiveFolder, ArchiveNotFoundError
from headrace.formats.archive.names import ArchiveFile
from headrace.formats.archive.partition import PartitionReader, first_at
from headrace.formats.archive.schema import SCHEMA
from headrace_connectors.archive.writer import GROUP_ROWS_MAX, FileBuilder, Origin

PLACE = ("t", 2)


def rows(offsets: Sequence[int]) -> pa.Table:
    return pa.table(
        {
            "offset": offsets,
            # not in order, as producers' clocks are not
            "timestamp": [1000 + (offset ^ 1) for offset in offsets],
            "key": [None if offset % 2 else b"k" for offset in offsets],
            "value": [None if offset % 5 == 0 else f"{offset}".encode() for offset in offsets],
            "headers": [[("h", None)] * (offset % 3) for offset in offsets],
        },
        schema=SCHEMA,
    )


def put(folder: ArchiveFolder, first: int, offsets: Sequence[int], *, job: str = "j") -> ArchiveFile:
    builder = FileBuilder(Origin(*PLACE, job), first)
    for begin in range(0, len(offsets), 4):
        builder.add(rows(offsets[begin : begin + 4]))
    built = builder.finish()
    folder.put(*PLACE, built.file, built.data)
    return built.file


def read(reader: PartitionReader, rows_max: int) -> list[int]:
    offsets: list[int] = []
    while (found := reader.read(rows_max)) is not None:
        assert 0 < found.num_rows <= rows_max
        assert found.select(["offset", "value"]).equals(rows(found["offset"].to_pylist()).select(["offset", "value"]))
        offsets += found["offset"].to_pylist()
        assert reader.position > offsets[-1]
    reader.close()
    return offsets


@given(
    st.sets(st.integers(0, 59)),
    st.lists(st.tuples(st.integers(0, 50), st.integers(1, 30)), max_size=6),
    st.integers(0, 60),
    st.one_of(st.none(), st.integers(0, 60)),
    st.integers(1, 9),
)
def test_reads_what_is_there_up_to_the_first_hole(
    log: set[int], cuts: list[tuple[int, int]], start: int, stop: int | None, rows_max: int
) -> None:
    folder = ArchiveFolder(f"memory://{uuid.uuid4()}")
    accounted: set[int] = set()
    for first, length in cuts:
        held = sorted(offset for offset in log if first <= offset < first + length)
        if held:
            put(folder, first, held, job=f"{first}-{length}")
            accounted |= set(range(first, held[-1] + 1))
    end = start
    while end in accounted and (stop is None or end < stop):
        end += 1
    reader = PartitionReader(folder, PLACE, start, stop, ["value"])
    assert read(reader, rows_max) == sorted(offset for offset in log & accounted if start <= offset < end)
    assert reader.position == end
    assert reader.finished == (stop is not None and end >= stop)


def test_a_folder_of_this_host(tmp_path: Path) -> None:
    folder = ArchiveFolder(str(tmp_path / "kept"))
    assert folder.partitions("t") == []
    assert folder.files(*PLACE) == []
    file = put(folder, 3, [5, 6, 9])
    (tmp_path / "kept" / "t" / "00002" / ".tmp-x").write_text("left by a writer that was killed")
    (tmp_path / "kept" / "t" / "notes").write_text("somebody's")
    assert (folder.partitions("t"), folder.files(*PLACE)) == ([2], [file])
    assert (file.first, file.next) == (3, 10)
    put(folder, 3, [5, 6, 9])
    assert folder.files(*PLACE) == [file], "the same again changes nothing"
    assert ArchiveFolder(f"file://{tmp_path}/kept").files(*PLACE) == [file]


def test_only_row_groups_that_are_needed_are_read(tmp_path: Path) -> None:
    folder = ArchiveFolder(str(tmp_path))
    builder = FileBuilder(Origin(*PLACE, "j"), 0)
    for group in range(3):
        builder.add(rows(range(group * GROUP_ROWS_MAX, (group + 1) * GROUP_ROWS_MAX)))
    built = builder.finish()
    folder.put(*PLACE, built.file, built.data)
    assert (built.footer.rows, built.footer.min_timestamp) == (3 * GROUP_ROWS_MAX, 1000)
    reader = PartitionReader(folder, PLACE, 2 * GROUP_ROWS_MAX + 5, None, ["key"])
    found = reader.read(7)
    assert found is not None
    assert found.column_names == ["offset", "key"]
    assert found["offset"].to_pylist() == list(range(2 * GROUP_ROWS_MAX + 5, 2 * GROUP_ROWS_MAX + 12))
    reader.close()


def test_the_first_of_a_time(tmp_path: Path) -> None:
    folder = ArchiveFolder(str(tmp_path))
    put(folder, 0, range(10))
    put(folder, 10, range(10, 20))
    files = folder.files(*PLACE)
    for time_ms in range(990, 1025):
        late = [offset for offset in range(3, 15) if 1000 + (offset ^ 1) >= time_ms]
        assert first_at(folder, PLACE, files, (3, 15), time_ms) == min(late, default=None)


def test_files_that_are_none(tmp_path: Path) -> None:
    folder = ArchiveFolder(str(tmp_path))
    file = put(folder, 0, range(4))
    place = tmp_path / "t" / "00002"
    (place / file.name).rename(place / file._replace(next=9).name)
    with pytest.raises(UserError, match=r"holds t\[2\] from 0 to 3"):
        PartitionReader(folder, PLACE, 0, None, []).read(1)
    (place / file._replace(next=9).name).write_bytes(b"PAR1")
    with pytest.raises(UserError, match="cannot be read"):
        PartitionReader(folder, PLACE, 0, None, []).read(1)
    pa.parquet.write_table(rows([1]), place / file._replace(next=9).name)
    with pytest.raises(UserError, match="is no file of an archive"):
        PartitionReader(folder, PLACE, 0, None, []).read(1)
    with pytest.raises(ArchiveNotFoundError):
        folder.open(*PLACE, file)


def test_places_that_cannot_be(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no installed package can read"):
        ArchiveFolder("nosuch://x")
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be a folder"):
        ArchiveFolder(str(tmp_path / "file" / "below")).make()
    with pytest.raises(ExternalError, match="cannot write"):
        put(ArchiveFolder(str(tmp_path / "file" / "below")), 0, [1])
