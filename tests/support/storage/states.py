"""The rows of stored states, whole."""

from __future__ import annotations

import polars as pl

from headrace.checkpoint.inspection.state_rows import StateRows
from headrace.checkpoint.inspection.stored_state import StoredState


def rows_of(stored: StoredState) -> pl.DataFrame:
    """All rows as they are kept; files may differ in columns."""
    return pl.concat(StateRows(stored).pieces(), how="diagonal_relaxed", rechunk=False)
