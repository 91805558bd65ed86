"""Writes rows directly into the table, at least once: in transactions of many rows, the last one at the barrier."""

from __future__ import annotations

from collections.abc import Sequence

import polars as pl
import sqlalchemy as sa

from headrace.connect.sink import Committable, SinkBatch, SinkContext
from headrace_connectors.sql.client import Database
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.tables.statements import delete_all, upsert_all
from headrace_connectors.sql.tables.tables import plain
from headrace_connectors.sql.tables.target import DELETE, Target
from headrace_connectors.sql.writing.load import load
from headrace_connectors.sql.writing.row_buffer import RowBuffer, with_keys

_ARRIVED = Target("__headrace_rows")
"""A temporary table, for this connection only, that receives the rows of an upsert."""


class DirectWriter:
    """Writes the rows of one subtask."""

    def __init__(self, config: SqlSinkSettings, context: SinkContext, database: Database) -> None:
        self._target, self._key, self._dialect = config.target, config.key, config.dialect
        self._context, self._database = context, database
        self._buffer = RowBuffer(context.schema.names)

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
        if self._key is None:
            plain_rows = rows.drop(DELETE)
            self._database.run(lambda connection, _: self._append(connection, plain_rows))
            return
        rows = with_keys(self._context, rows, self._key, dialect=self._dialect)
        last = rows.unique(subset=list(self._key), keep="last", maintain_order=True)
        self._database.run(lambda connection, _: self._upsert(connection, last))

    def _append(self, connection: sa.Connection, rows: pl.DataFrame) -> None:
        load(connection, self._target, rows, self._context.schema)

    def _upsert(self, connection: sa.Connection, rows: pl.DataFrame) -> None:
        assert self._key is not None
        schema, dialect = self._context.schema, connection.dialect.name
        table, arrived = plain(self._target, schema.names), plain(_ARRIVED, (*schema.names, DELETE))
        connection.exec_driver_sql(_temporary(connection, table))
        load(connection, _ARRIVED, rows, schema)
        if rows.get_column(DELETE).any():
            connection.execute(delete_all(table, arrived, self._key))
        connection.execute(upsert_all(dialect, table, arrived, schema.names, key=self._key))
        connection.execute(sa.delete(arrived))

    def close(self) -> None:
        """Discards rows that were not flushed."""
        self._buffer.taken()
        self._database.close()


def _temporary(connection: sa.Connection, table: sa.TableClause) -> str:
    """The statement that creates the temporary table, with the types of the user's table."""
    columns = sa.select(*table.c, sa.true().label(DELETE)).where(sa.false())
    options = " ON COMMIT DELETE ROWS" if connection.dialect.name == "postgresql" else ""
    select = columns.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
    return f'CREATE TEMPORARY TABLE IF NOT EXISTS "{_ARRIVED.table}"{options} AS {select}'
