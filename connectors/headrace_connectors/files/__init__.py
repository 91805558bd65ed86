"""Files as source and sink: JSON lines, CSV, raw lines and Parquet."""

from headrace.connect.registry import Connector
from headrace_connectors.files.connector import FilesSinkConfig, FilesSourceConfig

CONNECTOR = Connector(
    name="files",
    summary="Files: JSON lines, CSV, raw lines or Parquet; written ones appear when complete, exactly once if asked",
    source=FilesSourceConfig,
    sink=FilesSinkConfig,
    example_source="""\
files:
  path: data/flights-*.json
  partitions: 2
format: json
schema:
  origin: string not null
  dep_delay: float64
""",
    example_sink="""\
files:
  path: out/delays
  delivery: exactly-once
format: parquet
""",
)

__all__ = ["CONNECTOR", "FilesSourceConfig", "FilesSinkConfig"]
