"""A sink that collects rows in this process, in place of the real sinks of a pipeline under test or preview."""

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
    """The batches of one sink in the order of arrival; hidden `__op` marks deletes. Keeps about `rows_max` rows.

    Every subtask appends in its own thread without a lock: `list.append` is atomic, and the edge keeps the order of the
    rows of a key. The count of rows may be inexact, so subtasks together may add more than `rows_max`.
    """

    def __init__(self, rows_max: int | None = None) -> None:
        self._batches: list[pl.DataFrame] = []
        self._rows_max = rows_max
        self.rows = 0

    @property
    def full(self) -> bool:
        """Whether `rows_max` rows have been collected."""
        return self._rows_max is not None and self.rows >= self._rows_max

    def add(self, batch: pl.DataFrame) -> None:
        """Appends a batch, or its first rows up to `rows_max`."""
        if self._rows_max is not None:
            batch = batch.head(max(0, self._rows_max - self.rows))
        if batch.height:
            self._batches.append(batch)
            self.rows += batch.height

    def frame(self, schema: Schema) -> pl.DataFrame:
        """The visible columns of all rows except deletes, in the order of arrival."""
        rows = self._all(schema)
        if OP in rows.columns:
            rows = rows.filter(~pl.col(OP))
        return rows.select(visible_columns(rows))

    def latest(self, schema: Schema, key: Sequence[str]) -> pl.DataFrame:
        """The last row of every key, in the order of arrival; deleted keys are absent. Without key columns: the last
        row."""
        rows = last_rows(self._all(schema), key)
        return rows.select(visible_columns(rows))

    def _all(self, schema: Schema) -> pl.DataFrame:
        return concat_batches(self._batches) if self._batches else schema.empty()


@runtime_checkable
class RowTaker(Protocol):
    """Receives the rows of one sink from all of its subtasks. Each subtask calls it in its own thread."""

    def add(self, batch: pl.DataFrame) -> None:
        """Receives a batch; hidden `__op` marks deletes."""
        ...


class CollectSink(SinkConfig):
    """Passes all rows to `collection`."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    takes: ClassVar[Literal["messages", "rows"]] = "rows"
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    collection: RowTaker

    @property
    def refuses(self) -> Literal["never", "in_write", "in_flush"]:
        """In place of a sink it has that sink's output `bad`, which stays empty: every row can be collected."""
        return "in_write"

    @property
    def accepts_updates(self) -> bool:
        """True: updates are kept one by one; `Collection.latest` merges them."""
        return True

    @property
    def accepts_deletes(self) -> bool:
        """True: deletes are kept with their mark."""
        return True

    def open_writer(self, context: SinkContext) -> Writer:
        """The writer of one subtask."""
        return _Writer(self.collection)


class _Writer:
    def __init__(self, collection: RowTaker) -> None:
        self._collection = collection

    def write(self, batch: SinkBatch) -> None:
        """Passes the rows on."""
        self._collection.add(batch.rows)

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Returns no committables: nothing is durable."""
        return ()

    def close(self) -> None:
        """Does nothing: the writer has no resources."""
