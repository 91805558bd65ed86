"""Every test process asserts that no row comes below the watermark of the operator that it comes to."""

from __future__ import annotations

from collections import Counter

import polars as pl
import pytest

from headrace.core.batch import TS, WM
from headrace.core.signals import TIME_MIN, Watermark
from headrace.core.types import Field, Primitive, Schema
from headrace.operators.chain import Link
from headrace.operators.filter import FilterConfig
from headrace.operators.union import UnionConfig

SCHEMA = Schema((Field("x", Primitive.INT64),))


def row(watermark: int) -> pl.DataFrame:
    return pl.DataFrame({"x": [1], TS: [0], WM: [watermark]})


@pytest.mark.parametrize("config", [FilterConfig("n", "x > 0", SCHEMA), UnionConfig("n", ("a",), SCHEMA)])
def test_a_row_below_the_watermark_fails_the_test(config: FilterConfig | UnionConfig) -> None:
    (receiver,) = Link(config.open(), {}, Counter()).inputs(1)
    receiver.on_batch(row(-5))
    receiver.on_signal(Watermark(7))
    receiver.on_batch(row(7))
    receiver.on_batch(row(TIME_MIN))
    with pytest.raises(AssertionError, match="a row of 6 comes at watermark 7"):
        receiver.on_batch(row(6))
