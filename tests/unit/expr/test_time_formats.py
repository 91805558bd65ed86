"""`strptime` with any format: what DuckDB reads is read the same, and a format that matches nothing is refused."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import duckdb
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from headrace.core.errors import ExpressionError
from headrace.core.types import schema_of
from headrace.expr.compiler import compile_scalar

SCHEMA = schema_of({"s": "string"})
_SEPARATORS = ("", " ", ",", ":", ".", ";", "/", "-", "T", "é", "%%", "(", "[x] ", "\\d", "$1", "\n")
_DAYS = ("%Y-%m-%d", "%d.%m.%Y", "%d/%b/%Y", "%B %d %Y", "%Y%m%d", "%y%m%d")
_CLOCKS = ("%H:%M:%S", "%H%M%S", "%I:%M:%S %p", "%H.%M.%S")


def ours(text: str, form: str) -> datetime | None:
    compiled = compile_scalar(f"try_strptime(s, {quoted(form)})", SCHEMA)
    value = pl.DataFrame({"s": [text]}).select(compiled.value).item()
    assert value is None or isinstance(value, datetime)
    return value


def duckdbs(text: str, form: str) -> datetime | None:
    row = duckdb.execute("select try_strptime(?, ?)", [text, form]).fetchone()
    assert row is not None
    value = row[0]
    assert value is None or isinstance(value, datetime)
    return value if value is None or value.tzinfo else value.replace(tzinfo=UTC)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


@pytest.mark.parametrize(
    ("text", "form", "right"),
    [
        ("2024-01-01 00:00:00,123", "%Y-%m-%d %H:%M:%S,%f", "2024-01-01 00:00:00.123"),
        ("2024-01-01 00:00:00:5", "%Y-%m-%d %H:%M:%S:%f", "2024-01-01 00:00:00.5"),
        ("2024-01-01 00:00:00,000001", "%Y-%m-%d %H:%M:%S,%f", "2024-01-01 00:00:00.000001"),
        ("20240101120000123", "%Y%m%d%H%M%S%f", "2024-01-01 12:00:00.123"),
        ("2024-01-01 12:00:00,250+02:00", "%Y-%m-%d %H:%M:%S,%f%z", "2024-01-01 10:00:00.250"),
        ("+0200 2024-01-01 12:00:00,250", "%z %Y-%m-%d %H:%M:%S,%f", "2024-01-01 10:00:00.250"),
        ("5 2024-01-01", "%f %Y-%m-%d", "2024-01-01 00:00:00.5"),
        ("2024-01-01 07 5", "%Y-%m-%d %H %f", "2024-01-01 07:00:00.5"),
        # more digits than DuckDB reads; nothing after a dot
        ("2024-01-01 00:00:00,123456789", "%Y-%m-%d %H:%M:%S,%f", "2024-01-01 00:00:00.123456"),
        ("2024-01-01 00:00:00", "%Y-%m-%d %H:%M:%S.%f", "2024-01-01 00:00:00"),
        ("2024-01-01 00:00:00,", "%Y-%m-%d %H:%M:%S,%f", None),
        ("2024-01-01 00:00:00", "%Y-%m-%d %H:%M:%S,%f", None),
        ("2024-01-01 00:00:00,.5", "%Y-%m-%d %H:%M:%S,%f", None),
        ("2024-01-01 00:00:00,-5", "%Y-%m-%d %H:%M:%S,%f", None),
        ("2024-01-01 00:00:00.5", "%Y-%m-%d %H:%M:%S,%f", None),
        ("0001-01-01 00:00:00,5+23:59", "%Y-%m-%d %H:%M:%S,%f%z", None),
    ],
)
def test_fractions_of_a_second(text: str, form: str, right: str | None) -> None:
    wanted = None if right is None else datetime.fromisoformat(right).replace(tzinfo=UTC)
    assert ours(text, form) == wanted


@st.composite
def formats(draw: st.DrawFn) -> str:
    between, before, after = (draw(st.sampled_from(_SEPARATORS)) for _ in range(3))
    day = draw(st.sampled_from(_DAYS))
    # a clock right behind a year or a fraction is read as more digits of it
    between = between or " "
    clock = draw(st.sampled_from(_CLOCKS))
    zone = draw(st.sampled_from(["", "%z", " %z"]))
    if draw(st.booleans()):
        # DuckDB demands blanks of the format's end
        return f"{day}{between}{clock}{before}%f{after.rstrip() if not zone else ''}{zone}"
    return f"{clock}{before}%f{between}{day}{zone}"


def written(moment: datetime, form: str, digits: int) -> str:
    fraction = f"{moment.microsecond:06}"[:digits]
    return moment.strftime(form.replace("%%", "\0").replace("%f", fraction).replace("\0", "%%"))


@given(
    form=formats(),
    moment=st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)),
    digits=st.integers(1, 6),
    cut=st.one_of(st.just(0), st.integers(1, 12)),
)
def test_a_text_is_read_as_duckdb_reads_it(form: str, moment: datetime, digits: int, cut: int) -> None:
    text = whole = written(moment.replace(tzinfo=UTC), form, digits)
    # DuckDB reads a zone without minutes, too
    text = text[: len(text) - (0 if form.endswith("%z") else cut)]
    theirs = duckdbs(text, form)
    try:
        found = ours(text, form)
    except ExpressionError:
        # digits of the next directive right behind a fraction belong to it
        assert theirs is None
        return
    assert found == theirs, (text, form)
    if text == whole:
        short = moment.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits)
        assert found == moment.replace(microsecond=short, tzinfo=UTC)


@pytest.mark.parametrize(
    ("form", "words"),
    [
        ("%Y-%m-%d %I:%M", ["%p", "write %H"]),
        ("%Y-%m-%d %p", ["without an hour", "write %I"]),
        ("%f%Y-%m-%d", ["matches no text"]),
        ("%Y-%m-%d %H:%M:%S,%f%S", ["matches no text"]),
        ("%%Y-%m-%d", ["a year"]),
        ("%Y-%m-%d %", ["'%'", "directives"]),
        ("%Y-%m-%d %Q", ["'%Q'", "directives"]),
    ],
)
@pytest.mark.parametrize("function", ["strptime", "try_strptime"])
def test_a_format_that_matches_nothing_is_refused_with_its_place(function: str, form: str, words: list[str]) -> None:
    with pytest.raises(ExpressionError) as caught:
        compile_scalar(f"upper('x') = 'X' or {function}(s, {quoted(form)}) is null", SCHEMA)
    for word in words:
        assert word in str(caught.value)
    assert caught.value.offset == 20


@given(
    parts=st.lists(
        st.sampled_from(
            ["%Y", "%m", "%d", "%H", "%M", "%S", "%f", "%b", "%B", "%y", "%p", "%I", "%z", "%%", " ", ",", "."]
        ),
        max_size=9,
    ),
    moment=st.datetimes(datetime(1970, 1, 1), datetime(2068, 12, 31)),
)
def test_each_format_is_refused_or_reads_some_text(parts: list[str], moment: datetime) -> None:
    form = "".join(["%Y-%m-%d", *parts])
    try:
        compile_scalar(f"strptime(s, {quoted(form)})", SCHEMA)
    except ExpressionError:
        return
    around = [moment + timedelta(hours=hours) for hours in (0, 12)]
    assert any(ours(written(each.replace(tzinfo=UTC), form, 6), form) is not None for each in around)
