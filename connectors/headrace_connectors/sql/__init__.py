"""Tables of SQL databases as sinks: PostgreSQL and SQLite in all modes, others by appending rows.

The config here is the settings of `config`, with the methods that open the live halves. The live halves import
SQLAlchemy. They are imported only when they are opened: validating a pipeline stays cheap, and needs no `sql` extra.
They receive the settings of `config`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from headrace.connect.publisher import Publisher, Share
from headrace.connect.registry import Connector
from headrace.connect.row_check import Encode, RowCheck
from headrace.connect.sink import Committer, SinkConfig, SinkContext, Writer
from headrace.core.errors import UserError
from headrace_connectors.sql.config import SqlSinkSettings

if TYPE_CHECKING:
    from headrace_connectors.sql.client import Database


class SqlSinkConfig(SqlSinkSettings, SinkConfig):
    """Writes rows to a table of PostgreSQL or SQLite. To a table of another database it appends, at least once."""

    def open_writer(self, context: SinkContext) -> Writer:
        """Opens a writer into the table, or into its staging table."""
        database = _open_database(self, context)
        if self.exactly_once:
            from headrace_connectors.sql.writing.writers import StagingWriter

            return StagingWriter(self, context, database)
        from headrace_connectors.sql.writing.writers import DirectWriter

        return DirectWriter(self, context, database)

    def open_committer(self, context: SinkContext) -> Committer | None:
        """Opens the committer, which moves staged rows into the table."""
        if not self.exactly_once:
            return None
        database = _open_database(self, context)
        from headrace_connectors.sql.committer import SqlCommitter

        return SqlCommitter(self, context, database)

    def open_publisher(self, context: SinkContext, share: Share) -> Publisher | None:
        """Opens a publisher of staged rows, whatever `delivery` is; None for dialects without full support."""
        if not self.publishes_once:
            return None
        database = _open_database(self, context)
        from headrace_connectors.sql.publisher import SqlPublisher

        return SqlPublisher(self, context, share, database)

    def open_check(self, context: SinkContext, encode: Encode | None) -> RowCheck | None:
        """Rejects rows without a key in upsert mode, and values that the database cannot represent."""
        from headrace_connectors.sql.writing.row_buffer import SqlRowCheck

        return SqlRowCheck(self, context)

    def prepare(self, context: SinkContext) -> None:
        """Checks that the table fits the rows, or creates it if `create_table` is set.

        Raises UserError with the statement that corrects the table; Unreachable if no database answers.
        """
        database = _open_database(self, context)
        from headrace_connectors.sql.tables.prepare import prepare_tables

        try:
            prepare_tables(self, context, database)
        finally:
            database.close()


def _open_database(settings: SqlSinkSettings, context: SinkContext) -> Database:
    try:
        from headrace_connectors.sql.client import open_database
    except ModuleNotFoundError as cause:
        raise UserError(
            f"sink {context.node!r} needs SQLAlchemy and psycopg: {cause.name} is not installed",
            remedy="pip install 'headrace[sql]'",
        ) from cause
    return open_database(settings, context.node)


CONNECTOR = Connector(
    name="sql",
    summary="A table of a SQL database: appends rows, or keeps the last row per key; at least once or exactly once",
    sink=SqlSinkConfig,
    example_sink="""\
sql:
  url: postgresql://headrace:${DB_PASSWORD:-secret}@localhost:5432/flights
  table: public.delays
  mode: upsert
  key: [origin, window_start, window_end]
  delivery: exactly-once
""",
)

__all__ = ["CONNECTOR", "SqlSinkConfig"]
