"""The archive sink's config: the settings, with the methods that open the live half.

The live half is imported only when it is opened, so that validating a pipeline stays cheap. Only the package's
`__init__` imports this module: the live half takes the settings of `config`.
"""

from __future__ import annotations

from headrace.connect.sink import SinkConfig, SinkContext, Writer
from headrace_connectors.archive.config import ArchiveSinkSettings


class ArchiveSinkConfig(ArchiveSinkSettings, SinkConfig):
    """Keeps rows of a raw Kafka source below `path`, each partition's by offsets.

    The rows of a partition must come whole, in order and to one subtask: nothing may filter or spread them between the
    source and this sink, for files say which offsets do not exist. Written again after a failure, rows stand in two
    files, which is harmless: readers take every offset once.
    """

    def prepare(self, context: SinkContext) -> None:
        """Creates the folder. Raises UserError if that fails."""
        from headrace.formats.archive.folder import ArchiveFolder

        ArchiveFolder(self.path).make()

    def open_writer(self, context: SinkContext) -> Writer:
        """Opens the writer, which builds files in memory and puts them at barriers."""
        from headrace_connectors.archive.writer import ArchiveWriter

        return ArchiveWriter(self, context)
