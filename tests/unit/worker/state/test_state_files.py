"""Where chunks of a state lie: only new ones are written, and a failed write is never named."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.checkpoint.manifest import FilePart
from headrace.core.errors import ExternalError
from headrace.state.parquet import read_row_groups, row_groups_of
from headrace.state.snapshot import Chunk, StateKind, StateSnapshot, StoredFile, StoredRows
from headrace.worker.state.state_files import StateFiles, write_whole

GROUPS = 12


@dataclass
class Shelf:
    """Files by name. `full`: nothing goes in any more."""

    files: dict[str, bytes] = field(default_factory=dict)
    full: bool = False

    def write(self, data: bytes) -> str:
        if self.full:
            raise ExternalError("no room")
        name = f"file-{len(self.files)}"
        self.files[name] = data
        return name


def snapshot(chunks: dict[int, list[int]], origins: Mapping[int, StoredRows] = MappingProxyType({})) -> StateSnapshot:
    made = tuple(
        Chunk(number, pl.DataFrame({"n": rows}, schema={"n": pl.Int64}), origin=origins.get(number))
        for number, rows in chunks.items()
    )
    return StateSnapshot("sums", StateKind.KEYED, ("n",), made)


def rows_of(files: StateFiles, shelf: Shelf) -> list[int]:
    frames = [frame for part in files.parts() for frame in read_row_groups(shelf.files[part.path], part.row_groups)]
    assert [part.rows for part in files.parts()] == [
        sum(frame.height for frame in read_row_groups(shelf.files[part.path], part.row_groups))
        for part in files.parts()
    ]
    return sorted(value for frame in frames for value in frame.get_column("n").to_list())


def test_only_new_chunks_are_written() -> None:
    files, shelf = StateFiles(GROUPS), Shelf()
    files.bring(snapshot({1: [1, 2], 2: [3]}), shelf.write)
    assert len(shelf.files) == 1
    files.bring(snapshot({1: [1, 2], 2: [3]}), shelf.write)
    assert len(shelf.files) == 1
    files.bring(snapshot({1: [1, 2], 2: [3], 3: [4]}), shelf.write)
    assert len(shelf.files) == 2
    assert rows_of(files, shelf) == [1, 2, 3, 4]
    assert files.columns() == {"n": "Int64"}


def test_what_is_left_of_a_file_that_is_mostly_dead_moves() -> None:
    files, shelf = StateFiles(GROUPS), Shelf()
    files.bring(snapshot({1: [1, 2, 3], 2: [4]}), shelf.write)
    files.bring(snapshot({2: [4], 3: [5]}), shelf.write)
    assert [part.path for part in files.parts()] == ["file-1"]
    assert rows_of(files, shelf) == [4, 5]


def test_a_state_without_rows_has_no_files() -> None:
    files, shelf = StateFiles(GROUPS), Shelf()
    files.bring(snapshot({1: []}), shelf.write)
    assert files.parts() == ()
    assert shelf.files == {}


def test_after_a_write_that_failed_nothing_names_it_and_the_next_epoch_is_whole() -> None:
    files, shelf = StateFiles(GROUPS), Shelf()
    files.bring(snapshot({1: [1, 2, 3]}), shelf.write)
    shelf.full = True
    with pytest.raises(ExternalError):
        files.bring(snapshot({1: [1, 2, 3], 2: [4]}), shelf.write)
    assert rows_of(files, shelf) == [1, 2, 3]
    shelf.full = False
    files.bring(snapshot({2: [4], 3: [5]}), shelf.write)
    assert rows_of(files, shelf) == [4, 5]


def test_a_whole_state_is_one_file() -> None:
    shelf = Shelf()
    parts, columns = write_whole(snapshot({1: [1, 2], 2: [3]}), GROUPS, write=shelf.write)
    assert [part.rows for part in parts] == [3]
    assert len(shelf.files) == 1
    assert columns == {"n": "Int64"}


def earlier(shelf: Shelf, *chunks: list[int]) -> list[StoredRows]:
    """A file of an earlier attempt with these chunks; the origin of each."""
    files = StateFiles(GROUPS)
    files.bring(snapshot(dict(enumerate(chunks))), shelf.write)
    (part,) = files.parts()
    file = StoredFile(part.path, part.bytes, part.checksum, ("n",), part.rows)
    return [StoredRows(file, (number,), len(rows)) for number, rows in enumerate(chunks)]


def test_a_restored_chunk_is_named_where_it_lies() -> None:
    shelf = Shelf()
    origins = earlier(shelf, [1, 2], [3])
    files = StateFiles(GROUPS)
    state = snapshot({7: [1, 2], 8: [3], 9: [4]}, {7: origins[0], 8: origins[1]})
    files.bring(state, shelf.write)
    assert [(part.path, part.row_groups, part.rows) for part in files.parts()] == [
        ("file-0", (0, 1), 3),
        ("file-1", (0,), 1),
    ]
    assert rows_of(files, shelf) == [1, 2, 3, 4]
    assert files.columns() == {"n": "Int64"}
    files.bring(state, shelf.write)
    assert len(shelf.files) == 2


def test_an_earlier_file_that_is_mostly_dead_is_written_anew_once() -> None:
    shelf = Shelf()
    origins = earlier(shelf, [1, 2, 3], [4])
    files = StateFiles(GROUPS)
    state = snapshot({7: [4], 8: [5]}, {7: origins[1]})
    shelf.full = True
    with pytest.raises(ExternalError):
        files.bring(state, shelf.write)
    assert [part.path for part in files.parts()] == ["file-0"], "what could not be written is still where it was"
    shelf.full = False
    for _ in range(2):
        files.bring(state, shelf.write)
        assert [part.path for part in files.parts()] == ["file-1"]
    assert rows_of(files, shelf) == [4, 5]


def test_rows_that_other_keys_have_sorted_are_written_anew() -> None:
    shelf = Shelf()
    (origin,) = earlier(shelf, [1, 2])
    files = StateFiles(GROUPS)
    files.bring(snapshot({7: [1, 2]}, {7: replace(origin, file=replace(origin.file, keys=("m",)))}), shelf.write)
    assert [part.path for part in files.parts()] == ["file-1"]


def test_a_chunk_that_has_lost_rows_of_its_origin_is_a_bug() -> None:
    shelf = Shelf()
    (origin,) = earlier(shelf, [1, 2])
    with pytest.raises(AssertionError, match="has its rows"):
        StateFiles(GROUPS).bring(snapshot({7: [1]}, {7: origin}), shelf.write)


Epochs = list[tuple[set[int], bool, bool]]
"""Of each: the chunks that are kept, whether storage is full, and whether another attempt begins after it."""


@given(st.lists(st.tuples(st.sets(st.integers(0, 12)), st.booleans(), st.booleans()), max_size=8))
def test_files_hold_the_state_of_every_epoch_that_was_written(epochs: Epochs) -> None:
    files, shelf = StateFiles(GROUPS), Shelf()
    live: dict[int, list[int]] = {}
    origins: dict[int, StoredRows] = {}
    saved: dict[int, list[int]] = {}
    parts = files.parts()
    number = 0
    for keep, full, ends in epochs:
        live = {chunk: rows for chunk, rows in live.items() if chunk in keep}
        for _ in range(2):
            number += 1
            live[number] = list(range(number % 4))
        shelf.full = full
        try:
            files.bring(snapshot(live, origins), shelf.write)
            assert rows_of(files, shelf) == sorted(value for rows in live.values() for value in rows)
            saved, parts = dict(live), files.parts()
        except ExternalError:
            pass
        if ends:
            live, origins = {}, {}
            for part in parts:
                for origin, rows in restored(part, shelf):
                    number += 1
                    live[number], origins[number] = rows, origin
            assert sorted(value for rows in live.values() for value in rows) == sorted(
                value for rows in saved.values() for value in rows
            )
            files = StateFiles(GROUPS)


def restored(part: FilePart, shelf: Shelf) -> list[tuple[StoredRows, list[int]]]:
    """The chunks of a part, as another attempt of the same parallelism restores them."""
    data = shelf.files[part.path]
    groups = row_groups_of(data)
    assert groups is not None
    file = StoredFile(part.path, part.bytes, part.checksum, ("n",), sum(group.rows for group in groups.groups))
    return [
        (StoredRows(file, tuple(run), frame.height), frame.get_column("n").to_list())
        for run, frame in zip(groups.runs(part.row_groups), read_row_groups(data, part.row_groups), strict=True)
    ]
