"""What calls ask of their step's state."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import pytest

from headrace.operators.aggregates.columns import NANMAX
from headrace.operators.aggregates.needs import Values


def unchanged(values: pl.DataFrame, _by: Sequence[str]) -> pl.DataFrame:
    return values


def test_a_fold_has_a_column_that_a_merge_keeps() -> None:
    values = Values("__v_x")
    values.add_fold(f"{NANMAX}x", unchanged)
    assert list(values.folds) == [f"{NANMAX}x"]
    with pytest.raises(AssertionError, match="a merge drops columns"):
        values.add_fold("__product.x", unchanged)
