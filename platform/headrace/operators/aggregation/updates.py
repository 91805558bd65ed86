"""Updating edges seen by a stateless step: a row that it must not pass on becomes a delete of its key.

A row that is dropped in silence would leave its key's earlier row standing downstream, so that the result would depend
on which updates were sent in between.
"""

from __future__ import annotations

import polars as pl

from headrace.core.batch import OP


def keep_rows(batch: pl.DataFrame, keep: pl.Series, *, updating: bool) -> pl.DataFrame:
    """The rows for which `keep` is true. On an updating edge the others stay, as deletes; deletes stay deletes."""
    if not updating:
        return batch.filter(keep)
    deleted = ~keep.fill_null(value=False)
    if OP in batch.columns:
        deleted |= batch.get_column(OP)
    return batch.with_columns(deleted.alias(OP)) if deleted.any() else batch
