"""Archives Kafka topics as Parquet files by partition and offsets. `headrace archive` builds such pipelines."""

from headrace.connect.registry import Connector
from headrace_connectors.archive.connector import ArchiveSinkConfig

CONNECTOR = Connector(
    name="archive",
    summary="An archive of Kafka topics: Parquet files by partition and offsets, for the Kafka source's `archive:`",
    sink=ArchiveSinkConfig,
    example_sink="""\
archive:
  path: ./archive
""",
)

__all__ = ["CONNECTOR", "ArchiveSinkConfig"]
