"""Types out of their text: every type that state has, and what is none."""

from __future__ import annotations

import polars as pl
import pytest

from headrace.core.errors import ExternalError
from headrace.state.parquet import dtype_of

TYPES = (
    pl.Boolean(), pl.Int32(), pl.Int64(), pl.Int128(), pl.UInt64(), pl.Float32(), pl.Float64(), pl.String(),
    pl.Binary(), pl.Date(), pl.Null(), pl.Datetime("us", "UTC"), pl.Datetime("ms"), pl.Duration("us"),
    pl.Decimal(38, 2), pl.List(pl.List(pl.String)), pl.Struct({"a b": pl.Int64, "it's": pl.List(pl.Decimal(9, 0))}),
)  # fmt: skip


@pytest.mark.parametrize("dtype", TYPES, ids=str)
def test_text_and_back(dtype: pl.DataType) -> None:
    assert dtype_of(str(dtype)) == dtype


@pytest.mark.parametrize("text", ["Int256", "", "List(Int64", "List(Int64, Int64)", "__import__('os')", "Datetime()"])
def test_what_is_no_type_is_refused(text: str) -> None:
    with pytest.raises(ExternalError, match="does not know"):
        dtype_of(text)
