"""Where chunks of a state lie: only new ones are written, and a failed write is never named."""

from __future__ import annotations

from dataclasses import dataclass, field

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ExternalError
from headrace.state.parquet import read_row_groups
from headrace.state.snapshot import Chunk, StateKind, StateSnapshot
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


def snapshot(chunks: dict[int, list[int]]) -> StateSnapshot:
    made = tuple(Chunk(number, pl.DataFrame({"n": rows}, schema={"n": pl.Int64})) for number, rows in chunks.items())
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


@given(st.lists(st.tuples(st.sets(st.integers(0, 12)), st.booleans()), max_size=8))
def test_files_hold_the_state_of_every_epoch_that_was_written(epochs: list[tuple[set[int], bool]]) -> None:
    files, shelf = StateFiles(GROUPS), Shelf()
    live: dict[int, list[int]] = {}
    number = 0
    for keep, full in epochs:
        live = {chunk: rows for chunk, rows in live.items() if chunk in keep}
        for _ in range(2):
            number += 1
            live[number] = list(range(number % 4))
        shelf.full = full
        try:
            files.bring(snapshot(live), shelf.write)
        except ExternalError:
            continue
        assert rows_of(files, shelf) == sorted(value for rows in live.values() for value in rows)
