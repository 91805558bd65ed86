"""Collapses updating rows to the last row of every key; a key whose last row is a delete has none. Pure."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl

from headrace.core.batch import OP


def last_rows(rows: pl.DataFrame, key: Sequence[str]) -> pl.DataFrame:
    """The remaining rows without `__op`, in the order in which their keys' last rows arrived. Without a key: the last
    row of the input."""
    last = rows.unique(subset=list(key), keep="last", maintain_order=True) if key else rows.tail(1)
    return last.filter(~pl.col(OP)).drop(OP) if OP in last.columns else last
