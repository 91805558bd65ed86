"""The rows that writers and publishers accept."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """n rows to write.

    rows      polars frame with the visible columns and the hidden `__ts` and, where rows are deletes, `__op`
    messages  the rows encoded by the sink's format: Arrow large_binary, large_string or string_view of length n;
              None if the sink takes rows (`takes = "rows"`)
    """

    rows: pl.DataFrame
    messages: pa.Array | None = None

    def __len__(self) -> int:
        return self.rows.height
