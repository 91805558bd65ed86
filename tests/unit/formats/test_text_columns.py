"""Columns of times as text."""

from __future__ import annotations

import datetime as dt

import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from headrace.formats.text_columns import format_timestamps
from headrace.formats.text_values import parse_timestamp


@given(st.lists(st.datetimes(), min_size=1, max_size=4))
def test_written_times_are_read_back(moments: list[dt.datetime]) -> None:
    column = pl.Series("t", moments * 300, dtype=pl.Datetime("us")).dt.replace_time_zone("UTC")
    assert [parse_timestamp(text) for text in format_timestamps(column)] == column.cast(pl.Int64).to_list()
