"""CSV of topics and files: delimiter, header or numbered columns, messages that are no rows."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from headrace.core.errors import UserError
from headrace.local.inspection.sample import delimiter_of, file_sample, looks_like_header, message_sample


@pytest.mark.parametrize(
    ("texts", "delimiter"),
    [
        (["a,b", "c,d"], ","),
        (["a;1,5;c", "b;2;d", "c;3;d"], ";"),
        (["a\tb"], "\t"),
        (["a|b|c"], "|"),
        (["one", "two"], ","),
        (['"a;b",c', '"d",e'], ","),
    ],
)
def test_the_delimiter_splits_most_rows_alike(texts: list[str], delimiter: str) -> None:
    assert delimiter_of(texts) == delimiter


def test_columns_of_messages_are_numbered_and_rubbish_is_left_out() -> None:
    messages = [b"dev-1;2026-11-01T00:00:00Z;23.04", b"<rubbish>", b"dev-2;2026-11-01T00:00:01Z;\r\n"]
    sample, places = message_sample(messages, "topic iot")
    assert places == (0, 2)
    assert sample.format == '{csv: {delimiter: ";"}}'
    assert list(sample.rows[1]) == ["column_1", "column_2", "column_3"]
    assert sample.rows[1]["column_3"] == ""


@pytest.mark.parametrize(
    ("first", "rest", "expected"),
    [
        (["id", "at"], [["1", "2026-11-01"]], True),
        (["id", "name"], [["a", "b"]], True),
        (["dev-1", "2026-11-01T00:00:00Z"], [["dev-1", "2026-11-01T00:00:01Z"]], False),
        (["dev-1", "23.5"], [["dev-2", "24"]], False),
        (["dev-1", "on"], [["dev-2", "on"]], False),
        (["dev-1", ""], [["dev-2", "x"]], False),
    ],
)
def test_a_header_is_names_only(first: list[str], rest: Sequence[list[str]], expected: bool) -> None:
    assert looks_like_header(first, rest) is expected


@pytest.mark.parametrize("delimiter", [",", ";", "\t"])
def test_a_file_with_and_without_header(delimiter: str) -> None:
    rows = [delimiter.join(row) + "\n" for row in (["id", "n"], ["a", "1"], ["b", "2"])]
    named = file_sample(rows, "x.csv", header=None)
    assert named.rows[0] == {"id": "a", "n": "1"}
    assert "header: true" in named.format
    assert named.note == "the first line names the columns (--no-header if they are data)"
    bare = file_sample(rows[1:], "x.csv", header=None)
    assert bare.rows[0] == {"column_1": "a", "column_2": "1"}
    assert "header" not in bare.format
    assert "they are named column_1" in bare.note
    forced = file_sample(rows, "x.csv", header=False)
    assert forced.rows[0] == {"column_1": "id", "column_2": "n"}


def test_a_topic_or_file_without_rows_is_refused() -> None:
    with pytest.raises(UserError, match="no rows"):
        message_sample([], "topic t")
    with pytest.raises(UserError, match="no rows"):
        file_sample([], "x.csv", header=None)
    with pytest.raises(UserError, match="names no columns, or some twice"):
        file_sample(["a,a\n", "1,2\n"], "x.csv", header=True)
