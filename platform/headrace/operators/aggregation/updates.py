"""Updating edges in a stateless step: a row that the step filters out becomes a delete of its key.

If the step dropped the row instead, the key's earlier row would remain downstream, and the result would depend on the
updates before it.
"""

from __future__ import annotations

import polars as pl

from headrace.core.batch import OP


def keep_rows(batch: pl.DataFrame, keep: pl.Series, *, updating: bool) -> pl.DataFrame:
    """The rows for which `keep` is true. On an updating edge the others become deletes; deletes stay deletes."""
    if not updating:
        return batch.filter(keep)
    deleted = ~keep.fill_null(value=False)
    if OP in batch.columns:
        deleted |= batch.get_column(OP)
    return batch.with_columns(deleted.alias(OP)) if deleted.any() else batch
