"""Writes rows into the user's table, inside of the caller's transaction."""

from __future__ import annotations

import polars as pl
import sqlalchemy as sa

from headrace.core.types import Schema
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.tables.statements import delete_all, upsert_all
from headrace_connectors.sql.tables.tables import plain
from headrace_connectors.sql.tables.target import DELETE, Target
from headrace_connectors.sql.writing.load import load

_ARRIVED = Target("__headrace_rows")
"""A temporary table, for this connection only, that receives the rows of an upsert."""


class TableRows:
    """The rows of one sink."""

    def __init__(self, config: SqlSinkSettings, schema: Schema) -> None:
        self._target, self._key, self._schema = config.target, config.key, schema

    def put(self, connection: sa.Connection, rows: pl.DataFrame) -> None:
        """Writes buffered rows into the table: all of them, or the last one of each key."""
        names = self._schema.names
        if self._key is None:
            load(connection, self._target, rows.select(names), self._schema)
        else:
            last = rows.unique(subset=list(self._key), keep="last", maintain_order=True)
            self._upsert(connection, last.select(*names, DELETE))

    def _upsert(self, connection: sa.Connection, rows: pl.DataFrame) -> None:
        assert self._key is not None
        schema, dialect = self._schema, connection.dialect.name
        table, arrived = plain(self._target, schema.names), plain(_ARRIVED, (*schema.names, DELETE))
        connection.exec_driver_sql(_temporary(connection, table))
        load(connection, _ARRIVED, rows, schema)
        if rows.get_column(DELETE).any():
            connection.execute(delete_all(table, arrived, self._key))
        connection.execute(upsert_all(dialect, table, arrived, schema.names, key=self._key))
        connection.execute(sa.delete(arrived))


def _temporary(connection: sa.Connection, table: sa.TableClause) -> str:
    """The statement that creates the temporary table, with the types of the user's table."""
    columns = sa.select(*table.c, sa.true().label(DELETE)).where(sa.false())
    options = " ON COMMIT DELETE ROWS" if connection.dialect.name == "postgresql" else ""
    select = columns.compile(dialect=connection.dialect, compile_kwargs={"literal_binds": True})
    return f'CREATE TEMPORARY TABLE IF NOT EXISTS "{_ARRIVED.table}"{options} AS {select}'
