"""Which rows the user's table will refuse when they are moved into it: they are tried beforehand, and nothing of that
stays.

PostgreSQL tries them in a temporary table with the columns and checks of the user's: rows that are written and rolled
back would leave dead ones in the table itself. Unique and foreign keys are not tried there. SQLite has no copy of a
table; there the rows are written and rolled back.
"""

from __future__ import annotations

import polars as pl
import sqlalchemy as sa

from headrace.connect.row_check import Refused
from headrace.core.types import Schema
from headrace_connectors.sql.config import SqlSinkSettings
from headrace_connectors.sql.tables.tables import plain
from headrace_connectors.sql.tables.target import DELETE, Target
from headrace_connectors.sql.writing.halves import put_by_halves
from headrace_connectors.sql.writing.load import load
from headrace_connectors.sql.writing.table_rows import TableRows

_COPY = Target("__headrace_trial")


class Trial:
    """The trials of one writer. what: its name in errors."""

    def __init__(self, config: SqlSinkSettings, schema: Schema, what: str) -> None:
        self._target, self._schema, self._what = config.target, schema, what
        self._table = TableRows(config, schema)

    def refused(self, connection: sa.Connection, rows: pl.DataFrame) -> Refused:
        """The buffered rows that the table refuses for themselves."""
        if connection.dialect.name != "postgresql":
            return put_by_halves(connection, rows, self._table.put, self._what, keep=False)
        # a delete has only a key
        numbers = (~rows.get_column(DELETE)).arg_true()
        connection.exec_driver_sql(self._made_copy(connection))
        found = put_by_halves(connection, rows[numbers], self._put_into_copy, self._what, keep=False)
        return {numbers[row]: refusal for row, refusal in found.items()}

    def _made_copy(self, connection: sa.Connection) -> str:
        names = connection.dialect.identifier_preparer
        copy, table = (names.format_table(plain(each, ())) for each in (_COPY, self._target))
        parts = " ".join(f"INCLUDING {part}" for part in ("CONSTRAINTS", "DEFAULTS", "GENERATED", "IDENTITY"))
        return f"CREATE TEMPORARY TABLE {copy} (LIKE {table} {parts}) ON COMMIT DROP"

    def _put_into_copy(self, connection: sa.Connection, rows: pl.DataFrame) -> None:
        load(connection, _COPY, rows.select(self._schema.names), self._schema)
