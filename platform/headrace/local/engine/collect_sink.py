"""A sink that keeps rows in this process: what stands in for the real sinks of a pipeline under test or preview."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal, Protocol, runtime_checkable

import polars as pl
from pydantic import ConfigDict

from headrace.connect.sink import Committable, SinkBatch, SinkConfig, SinkContext, Writer
from headrace.core.batch import OP, concat_batches, visible_columns
from headrace.core.last_rows import last_rows
from headrace.core.types import Schema


class Collection:
    """Batches of one sink, as they came; hidden `__op` marks deletes. At most `rows_max` rows are kept.

    Every subtask appends from its own thread: `list.append` is atomic, and the order per key is the edge's promise.
    """

    def __init__(self, rows_max: int | None = None) -> None:
        self._batches: list[pl.DataFrame] = []
        self._rows_max = rows_max
        self.rows = 0

    @property
    def full(self) -> bool:
        """Whether as many rows are there as are wanted."""
        return self._rows_max is not None and self.rows >= self._rows_max

    def add(self, batch: pl.DataFrame) -> None:
        """Takes a batch, or what still fits of it."""
        if self._rows_max is not None:
            batch = batch.head(max(0, self._rows_max - self.rows))
        if batch.height:
            self._batches.append(batch)
            self.rows += batch.height

    def frame(self, schema: Schema) -> pl.DataFrame:
        """Every row, deletes left out: the visible columns, in the order of arrival."""
        rows = self._all(schema)
        if OP in rows.columns:
            rows = rows.filter(~pl.col(OP))
        return rows.select(visible_columns(rows))

    def latest(self, schema: Schema, key: Sequence[str]) -> pl.DataFrame:
        """The last row of every key, in the order of arrival; a deleted key is absent. Without keys: the last row."""
        rows = last_rows(self._all(schema), key)
        return rows.select(visible_columns(rows))

    def _all(self, schema: Schema) -> pl.DataFrame:
        return concat_batches(self._batches) if self._batches else schema.empty()


@runtime_checkable
class RowTaker(Protocol):
    """Takes rows of one sink from all of its subtasks, each from its own thread."""

    def add(self, batch: pl.DataFrame) -> None:
        """Takes a batch; hidden `__op` marks deletes."""
        ...


class CollectSink(SinkConfig):
    """Appends what arrives to `collection`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    takes: ClassVar[Literal["messages", "rows"]] = "rows"
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    collection: RowTaker

    @property
    def accepts_updates(self) -> bool:
        """Updates are kept one by one; the reader folds them."""
        return True

    @property
    def accepts_deletes(self) -> bool:
        """Deletes are kept with their mark."""
        return True

    def open_writer(self, context: SinkContext) -> Writer:
        """Appends for one subtask."""
        return _Writer(self.collection)


class _Writer:
    def __init__(self, collection: RowTaker) -> None:
        self._collection = collection

    def write(self, batch: SinkBatch) -> None:
        """Keeps the rows."""
        self._collection.add(batch.rows)

    def flush(self, epoch: int) -> Sequence[Committable]:
        """There is nothing to make durable."""
        return ()

    def close(self) -> None:
        """Holds nothing."""
