"""A job's log is read from a position on, each line once, also when its files are rotated."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
import pytest
from hypothesis import given

from headrace.coordinator.driver import job_log
from headrace.coordinator.driver.job_log import FileOffset, JobLog, parsed, position_text
from headrace.core.errors import UserError


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def rotate(path: Path) -> None:
    path.rename(path.with_name(f"{path.name}.1"))


def test_lines_come_once(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    append(log, "one\ntwo\nthr")
    first = JobLog.read(tmp_path, 1)
    append(log, "ee\n")
    append(tmp_path / "connector-host.log", "host\n")
    second = JobLog.read(tmp_path, 10, first.position)
    third = JobLog.read(tmp_path, 10, second.position)

    assert (first.lines, second.lines, third.lines) == (("two",), ("host", "three"), ())
    assert third.position == second.position


def test_a_rotated_file_is_read_to_its_end_first(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    append(log, "one\n")
    position = JobLog.read(tmp_path, 10).position
    append(log, "two\n")
    rotate(log)
    append(log, "three\n")
    rest = JobLog.read(tmp_path, 10, position)
    new = JobLog.read(tmp_path, 10, rest.position)

    assert (rest.lines, new.lines) == (("two",), ("three",))
    assert JobLog.read(tmp_path, 10).lines == ("one", "two", "three")


def test_a_file_that_was_rotated_twice_begins_anew(tmp_path: Path) -> None:
    log = tmp_path / "job.log"
    append(log, "one\n")
    position = JobLog.read(tmp_path, 10).position
    for text in ("two\n", "three\n"):
        rotate(log)
        append(log, text)

    assert JobLog.read(tmp_path, 10, position).lines == ("three",)


def test_an_answer_is_bounded_and_a_long_line_is_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_log, "READ_BYTES_MAX", 8)
    append(tmp_path / "job.log", "a\nb\nc\nd\ne\n" + 20 * "x" + "\n")
    lines: list[str] = []
    position = ""
    while (found := JobLog.read(tmp_path, 100, position)).lines:
        lines += found.lines
        position = found.position

    assert lines[:5] == ["a", "b", "c", "d", "e"]
    assert "".join(lines[5:]) == 20 * "x"


@given(
    st.dictionaries(
        st.sampled_from(["job.log", "tools.log", "connector-host.log"]), st.tuples(st.integers(0), st.integers(0))
    )
)
def test_a_position_is_text(places: dict[str, tuple[int, int]]) -> None:
    position = {name: FileOffset(*place) for name, place in places.items()}
    assert parsed(position_text(position)) == position


@pytest.mark.parametrize("text", ["x", "job.log:1", "../job.log:1:2", "job.log:1:-2", "job.log:1:2,", "a:1:2," * 2_000])
def test_other_text_is_no_position(text: str) -> None:
    with pytest.raises(UserError, match="no position"):
        parsed(text)
