"""Files as source and sink: JSON lines, CSV, raw lines and Parquet.

The two configs here are the settings of `config`, with the methods that open the live halves. The live halves are
imported only when they are opened, so that validating a pipeline stays cheap; they receive the settings of `config`.
"""

from __future__ import annotations

from headrace.connect.publisher import Publisher, Share
from headrace.connect.registry import Connector
from headrace.connect.row_check import Encode, RowCheck
from headrace.connect.sink import Committer, SinkConfig, SinkContext, Writer
from headrace.connect.source import Enumerator, Reader, SourceConfig, SourceContext, SplitId
from headrace_connectors.files.config import FilesSinkSettings, FilesSourceSettings
from headrace_connectors.files.paths import noted_files, place_of


class FilesSourceConfig(FilesSourceSettings, SourceConfig):
    """Reads the files that `path` matches, record by record, and ends."""

    def describe_position(self, split: SplitId, position: int) -> str:
        """`data/a.json line 17`, counted from 1."""
        file, line = place_of(position)
        mine = noted_files(self.path, split.partition, self.partitions)
        where = str(mine[file]) if file < len(mine) else f"{split} file {file}"
        return f"{where} line {line + 1}"

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        """Opens the enumerator, which lists the files once."""
        from headrace_connectors.files.source import FilesEnumerator

        return FilesEnumerator(self, context)

    def open_reader(self, context: SourceContext) -> Reader:
        """Opens the reader of the files."""
        from headrace_connectors.files.source import FilesReader

        return FilesReader(self, context)


class FilesSinkConfig(FilesSinkSettings, SinkConfig):
    """Writes files into a folder; each appears only when it is complete and on disk.

    A reader may move or delete a file as soon as it appears, also while a job recovers: the folder remembers with empty
    hidden files (`.committed-..`) which epochs were published. Leave hidden files where they are.
    """

    def open_writer(self, context: SinkContext) -> Writer:
        """Opens a writer of part files."""
        from headrace_connectors.files.sink import FilesWriter, StagingWriter

        return StagingWriter(self, context) if self.exactly_once else FilesWriter(self, context)

    def open_committer(self, context: SinkContext) -> Committer | None:
        """Opens the committer, which publishes part files; None for at-least-once."""
        from headrace_connectors.files.sink import FilesCommitter

        return FilesCommitter(self, context) if self.exactly_once else None

    def open_publisher(self, context: SinkContext, share: Share) -> Publisher:
        """Opens a publisher, which publishes staged rows as files, exactly once, whatever `delivery` is."""
        from headrace_connectors.files.publisher import FilesPublisher

        return FilesPublisher(self, context, share)

    def open_check(self, context: SinkContext, encode: Encode | None) -> RowCheck | None:
        """Rejects rows that are not one line of text; CSV quotes line breaks, and Parquet accepts every row."""
        from headrace_connectors.files.parts.part_files import QUOTING, encoder_of
        from headrace_connectors.files.row_check import LinesCheck

        encoder = encoder_of(context)
        return None if encoder is None or context.format in QUOTING else LinesCheck(context, encoder)

    def prepare(self, context: SinkContext) -> None:
        """Creates the folder. Raises UserError if that fails."""
        from headrace_connectors.files.parts.folder import make_folder

        make_folder(self.path)


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
