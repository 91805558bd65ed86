"""Columns of times and dates as text: what is understood is what the reading value by value says."""

from __future__ import annotations

import datetime as dt

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.text_columns import format_timestamps, parse_dates, parse_timestamps
from headrace.formats.text_values import parse_date, parse_timestamp
from support.suite.properties import weighted

_ALPHABET = "0123456789-+:.TZ tz"
_ZONES = ["", "Z", "z", "+00:00", "-23:59", "+24:00", "+01:60", "+0100"]


@st.composite
def _time_text(draw: st.DrawFn) -> str:
    moment = draw(st.datetimes())
    fraction = draw(st.sampled_from(["", ".5", ".123", ".123456", ".123456789", ".1234567891", "."]))
    text = (
        moment.strftime("%Y").zfill(4) + moment.strftime("-%m-%dT%H:%M:%S") + fraction + draw(st.sampled_from(_ZONES))
    )
    if draw(st.integers(0, 2)) == 0:
        place = draw(st.integers(0, len(text) - 1))
        text = text[:place] + draw(st.sampled_from(_ALPHABET)) + text[place + 1 :]
    return text


@weighted(2)
@given(st.lists(st.one_of(_time_text(), st.text(_ALPHABET, max_size=36), st.none()), max_size=8))
def test_times_are_understood_rightly_or_not_at_all(texts: list[str | None]) -> None:
    values, understood = parse_timestamps(pl.Series("t", texts, dtype=pl.String))
    for text, value, sure in zip(texts, values.tolist(), understood.tolist(), strict=True):
        if sure:
            assert text is not None
            assert value == parse_timestamp(text), text


@weighted(2)
@given(_time_text())
def test_texts_of_one_form_are_read_together(text: str) -> None:
    values, understood = parse_timestamps(pl.Series("t", [text] * 3))
    wanted = parse_timestamp(text)
    assert set(understood.tolist()) <= {wanted is not None} or "z" in text or "t" in text
    if understood.all():
        assert values.tolist() == [wanted] * 3


@weighted(2)
@given(
    st.lists(st.one_of(st.dates().map(str), st.text("0123456789-", min_size=10, max_size=10), st.none()), max_size=8)
)
def test_dates(texts: list[str | None]) -> None:
    values, understood = parse_dates(pl.Series("d", texts, dtype=pl.String))
    wanted = [None if text is None else parse_date(text) for text in texts]
    assert [value if sure else None for value, sure in zip(values.tolist(), understood.tolist(), strict=True)] == wanted


@given(st.lists(st.datetimes(), min_size=1, max_size=4))
def test_written_times_are_read_back(moments: list[dt.datetime]) -> None:
    column = pl.Series("t", moments * 300, dtype=pl.Datetime("us")).dt.replace_time_zone("UTC")
    values, understood = parse_timestamps(format_timestamps(column))
    assert understood.all()
    assert values.tolist() == column.cast(pl.Int64).to_list()
