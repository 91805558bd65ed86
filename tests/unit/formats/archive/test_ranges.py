"""Choice of files and coverage, against sets of offsets."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import UserError
from headrace.formats.archive.coverage import hole_in, require_covered, unbroken_from
from headrace.formats.archive.names import ArchiveFile, file_named, partition_folder, partition_named, writer_of
from headrace.formats.archive.ranges import Range, chosen, continued, covered

OFFSETS = 40

files = st.lists(
    st.tuples(st.integers(0, OFFSETS - 1), st.integers(1, 12), st.sampled_from("ab")).map(
        lambda each: ArchiveFile(each[0], each[0] + each[1], each[2])
    ),
    max_size=12,
)
bounds = st.tuples(st.integers(0, OFFSETS), st.one_of(st.none(), st.integers(0, OFFSETS + 12)))


def offsets_of(parts: list[Range] | list[ArchiveFile]) -> set[int]:
    return {offset for part in parts for offset in range(part.first, part.next)}


@given(files)
def test_what_is_covered(given_files: list[ArchiveFile]) -> None:
    ranges = covered(given_files)
    assert offsets_of(ranges) == offsets_of(given_files)
    assert all(before.next < after.first for before, after in pairwise(ranges))


@given(files, bounds)
def test_chosen_files_have_all_that_there_is(given_files: list[ArchiveFile], place: tuple[int, int | None]) -> None:
    start, stop = place
    wanted = set(range(start, 2 * OFFSETS if stop is None else stop))
    picked = chosen(given_files, start, stop)
    assert offsets_of(picked) & wanted == offsets_of(given_files) & wanted
    position = start
    for file in picked:
        here = max(position, file.first)
        holding = [each for each in given_files if each.first <= here < each.next]
        assert file.next == max(each.next for each in holding), "the one that reaches furthest"
        assert not any(each.first <= at < each.next for each in given_files for at in range(position, here))
        position = file.next


@given(files, bounds, st.integers(0, OFFSETS))
def test_holes(given_files: list[ArchiveFile], place: tuple[int, int | None], log_start: int) -> None:
    start, stop = place
    end = 2 * OFFSETS if stop is None else stop
    there = offsets_of(given_files) | set(range(log_start, 2 * OFFSETS))
    missing = [offset for offset in range(start, end) if offset not in there]
    hole = hole_in(covered(given_files), start, stop, log_start)
    if not missing:
        assert hole is None
        return
    assert hole is not None
    assert hole.first == missing[0]
    assert set(range(hole.first, hole.next)) <= set(missing)
    assert hole.next not in missing or hole.next == end


@given(files, st.integers(0, OFFSETS))
def test_where_nothing_is_missing_any_more(given_files: list[ArchiveFile], log_start: int) -> None:
    lowest = unbroken_from(covered(given_files), log_start)
    assert hole_in(covered(given_files), lowest, None, log_start) is None
    assert lowest <= log_start
    assert lowest == 0 or hole_in(covered(given_files), lowest - 1, None, log_start) is not None


@given(files, st.sampled_from("ab"), st.integers(0, OFFSETS))
def test_a_job_goes_on_behind_its_own_files(given_files: list[ArchiveFile], writer: str, row: int) -> None:
    begin = continued(given_files, writer, row)
    own = {file.next for file in given_files if file.writer == writer}
    assert begin <= row
    assert begin == row or begin in own
    assert not any(begin < end <= row for end in own)


def test_the_error_says_what_is_missing_and_what_to_do() -> None:
    with pytest.raises(UserError) as told:
        require_covered("t partition 3", [Range(0, 5), Range(9, 12)], 2, None, log_start=11, archive="s3://kept")
    assert str(told.value).startswith(
        "t partition 3: offsets 5 to 8 are neither in Kafka, which begins at 11, nor in the archive s3://kept, "
        "which holds [0, 5), [9, 12)\n"
    )
    assert "start at 9 or later" in str(told.value)
    require_covered("t", [], 4, 4, log_start=11, archive="")
    require_covered("t", [], 11, None, log_start=11, archive="")


@given(st.integers(0, 10**15), st.integers(1, 10**6), st.text(min_size=1))
def test_names_are_read_back_and_sort(first: int, length: int, job: str) -> None:
    file = ArchiveFile(first, first + length, writer_of(job))
    assert file_named(file.name) == file
    assert file.name < ArchiveFile(first + 1, first + 2, writer_of(job)).name


@pytest.mark.parametrize(
    "name", ["", "notes.txt", ".tmp-x", f"{3:020d}-{3:020d}-0123456789ab.parquet", f"{3:020d}-{4:020d}.parquet"]
)
def test_other_names_are_nobodys(name: str) -> None:
    assert file_named(name) is None


def test_folders_of_partitions() -> None:
    assert partition_folder("a.b", 7) == "a.b/00007"
    assert partition_folder("t", 123456) == "t/123456"
    assert [partition_named(name) for name in ("00007", "123456", "7", "x", "_delta")] == [7, 123456, None, None, None]
