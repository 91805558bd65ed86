"""Writes rows directly into the table, at least once: in transactions of many rows, the last one at the barrier."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import sqlalchemy as sa

from headrace.connect.row_check import Refused
from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace_connectors.sql.client import Database
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.writing.halves import put_by_halves
from headrace_connectors.sql.writing.row_buffer import RowBuffer, refuse, with_keys
from headrace_connectors.sql.writing.table_rows import TableRows


class DirectWriter:
    """Writes the rows of one subtask."""

    def __init__(self, config: SqlSinkSettings, context: SinkContext, database: Database) -> None:
        self._key, self._dialect = config.key, config.dialect
        self._table = TableRows(config, context.schema)
        self._context, self._database = context, database
        self._buffer = RowBuffer(context.schema.names, whole=context.refuse is not None)

    def write(self, batch: SinkBatch) -> None:
        """Buffers rows; stores them when the buffer is due."""
        self._buffer.add(batch)
        if self._buffer.is_due:
            self._store()

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Returns when every row is committed in the table."""
        self._store()
        return ()

    def _store(self) -> None:
        rows = self._buffer.taken()
        if not rows.height:
            return
        if self._key is not None:
            rows = with_keys(self._context, rows, self._key, dialect=self._dialect)
        refused = self._database.run(lambda connection, _: self._stored(connection, rows))
        refuse(self._context, rows, refused)

    def _stored(self, connection: sa.Connection, rows: pl.DataFrame) -> Refused:
        """Stores rows; returns those that the table refuses, if they may be left out."""
        if self._context.refuse is None:
            self._table.put(connection, rows)
            return {}
        return put_by_halves(connection, rows, self._table.put, self._database.what, keep=True)

    def close(self) -> None:
        """Discards rows that were not flushed."""
        self._buffer.taken()
        self._database.close()
