"""Tables of SQL databases as sinks: PostgreSQL and SQLite in all modes, others by appending rows."""

from headrace.connect.registry import Connector
from headrace_connectors.sql.connector import SqlSinkConfig

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
