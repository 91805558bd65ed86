from __future__ import annotations

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from headrace.core.signals import TIME_MAX, TIME_MIN
from headrace.spark.levels.envelope import (
    Envelope,
    Kind,
    decode_rows,
    decode_watermark,
    destination,
    encode_rows,
    encode_watermark,
)

U16, U32 = st.integers(0, (1 << 16) - 1), st.integers(0, (1 << 32) - 1)
ENVELOPES = st.builds(
    Envelope, st.sampled_from(Kind), U16, U32, st.binary(max_size=50), edge=U16, sender=U32, number=U32
)


@given(ENVELOPES)
def test_there_and_back(envelope: Envelope) -> None:
    data = envelope.pack()
    assert Envelope.unpack(data) == envelope
    assert destination(data) == (envelope.level, envelope.partition)


@pytest.mark.parametrize("watermark", [TIME_MIN, -1, 0, 1_709_251_200_000, TIME_MAX])
def test_watermarks(watermark: int) -> None:
    assert decode_watermark(encode_watermark(watermark)) == watermark


@pytest.mark.parametrize("height", [0, 1, 1000])
def test_rows_keep_their_types(height: int) -> None:
    rows = pl.DataFrame(
        {"a": range(height), "t": [None] * height, "l": [[1, None]] * height, "__ts": range(height)},
        schema={"a": pl.Int32, "t": pl.Datetime("us", "UTC"), "l": pl.List(pl.Int8), "__ts": pl.Int64},
    )
    assert_frame_equal(decode_rows(encode_rows(rows)), rows)
