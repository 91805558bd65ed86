"""Rows in memory, for tests within one process: a source that a test feeds, a sink that a test reads."""

from headrace.connect.registry import Connector
from headrace_connectors.memory.connector import (
    Collected,
    Feed,
    MemorySinkConfig,
    MemorySourceConfig,
    open_collected,
    open_feed,
)

CONNECTOR = Connector(
    name="memory",
    summary="Rows in memory, for tests: inline rows or a feed in, a collection out",
    source=MemorySourceConfig,
    sink=MemorySinkConfig,
    example_source="""\
memory:
  rows:
    - {origin: EWR, dep_delay: 2.5}
    - {origin: JFK, dep_delay: null}
schema:
  origin: string not null
  dep_delay: float64
""",
    example_sink="""\
memory:
  name: delays
""",
)

__all__ = ["CONNECTOR", "MemorySourceConfig", "MemorySinkConfig", "Feed", "Collected", "open_feed", "open_collected"]
