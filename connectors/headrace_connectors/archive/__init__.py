"""Archives Kafka topics as Parquet files by partition and offsets. `headrace archive` builds such pipelines.

The config here is the settings of `config`, with the methods that open the live half. The live half is imported only
when it is opened, so that validating a pipeline stays cheap; it receives the settings of `config`.
"""

from __future__ import annotations

from headrace.connect.registry import Connector
from headrace.connect.sink import SinkConfig, SinkContext, Writer
from headrace_connectors.archive.config import ArchiveSinkSettings


class ArchiveSinkConfig(ArchiveSinkSettings, SinkConfig):
    """Writes the rows of a raw Kafka source to files below `path`, by partition and offsets.

    All rows of a partition must arrive at one subtask, in order: no step between the source and this sink may filter or
    repartition them, because the files record which offsets do not exist. Rows that are written again after a failure
    are in two files. That is harmless, because readers read every offset once.
    """

    def prepare(self, context: SinkContext) -> None:
        """Creates the folder. Raises UserError if that fails."""
        from headrace.formats.archive.folder import ArchiveFolder

        ArchiveFolder(self.path).make()

    def open_writer(self, context: SinkContext) -> Writer:
        """Opens the writer, which builds files in memory and puts them at barriers."""
        from headrace_connectors.archive.writer import ArchiveWriter

        return ArchiveWriter(self, context)


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
