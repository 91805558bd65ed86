"""The files connector's two configs. Opens the live parts; touches no file itself."""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from headrace.connect.offsets_by_partition import StopField
from headrace.connect.publisher import Publisher, Share
from headrace.connect.row_check import Encode, RowCheck
from headrace.connect.sink import Committer, SinkConfig, SinkContext, Writer
from headrace.connect.sink_terms import refused_terms
from headrace.connect.source import Enumerator, Reader, SourceConfig, SourceContext, SplitId
from headrace_connectors.files.paths import place_of


class FilesSourceConfig(SourceConfig):
    """Reads the files that `path` matches, line by line or, for Parquet, row by row, and ends."""

    takes_format: ClassVar[Literal["required", "optional", "no"]] = "required"
    files: ClassVar[bool] = True

    path: str = Field(min_length=1, description="a file, or a glob such as data/*.json")
    partitions: int = Field(default=1, ge=1, le=10_000)
    stop: StopField = Field(
        default=None,
        description="where to end: {<partition>: <position>}, as a savepoint has them; latest: at the last file's end",
    )

    @property
    def bounded(self) -> bool:
        """Files end."""
        return True

    def describe_position(self, split: SplitId, position: int) -> str:
        """`data/a.json line 17`, counted from 1."""
        from headrace_connectors.files.paths import noted_files

        file, line = place_of(position)
        mine = noted_files(self.path, split.partition, self.partitions)
        where = str(mine[file]) if file < len(mine) else f"{split} file {file}"
        return f"{where} line {line + 1}"

    def open_enumerator(self, context: SourceContext) -> Enumerator:
        """Lists the files, once."""
        from headrace_connectors.files.source import FilesEnumerator

        return FilesEnumerator(self, context)

    def open_reader(self, context: SourceContext) -> Reader:
        """Reads files."""
        from headrace_connectors.files.source import FilesReader

        return FilesReader(self, context)


class FilesSinkConfig(SinkConfig):
    """Writes files into a folder; each appears only when it is complete and on disk."""

    # rows, not messages: Parquet is made of columns; text formats are encoded here
    takes: ClassVar[Literal["messages", "rows"]] = "rows"
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "required"
    files: ClassVar[bool] = True

    path: str = Field(
        min_length=1,
        description="a folder; it is made where there is none. With exactly-once, coordinator and workers share it",
    )
    delivery: Literal["at-least-once", "exactly-once"] = Field(
        default="at-least-once",
        description="when files appear: at each barrier, or once their checkpoint is complete, each row in one only",
    )

    @property
    def exactly_once(self) -> bool:
        """Whether files appear by commit."""
        return self.delivery == "exactly-once"

    def transactions(self, context: SinkContext) -> tuple[str, ...]:
        """The one name that this writer's hidden files carry."""
        from headrace_connectors.files.parts.part_names import WriterName

        return (str(WriterName.of(context)),) if self.exactly_once else ()

    def check(self, context: SinkContext) -> list[str]:
        """Whether the job's checkpoints are such that files can appear exactly once."""
        return refused_terms(context.checkpoint) if self.exactly_once else []

    def open_writer(self, context: SinkContext) -> Writer:
        """Writes part files."""
        from headrace_connectors.files.sink import FilesWriter
        from headrace_connectors.files.staging_writer import StagingWriter

        return StagingWriter(self, context) if self.exactly_once else FilesWriter(self, context)

    def open_committer(self, context: SinkContext) -> Committer | None:
        """Publishes part files, where they appear by commit."""
        from headrace_connectors.files.committer import FilesCommitter

        return FilesCommitter(self, context) if self.exactly_once else None

    @property
    def publishes_once(self) -> bool:
        """Always: whatever `delivery` says of a live job."""
        return True

    def open_publisher(self, context: SinkContext, share: Share) -> Publisher:
        """Publishes staged rows as files, each row in one only, whatever `delivery` says."""
        from headrace_connectors.files.publisher import FilesPublisher

        return FilesPublisher(self, context, share)

    def open_check(self, context: SinkContext, encode: Encode | None) -> RowCheck | None:
        """Refuses rows that are no line of text; Parquet takes every row."""
        from headrace_connectors.files.parts.part_files import encoder_of
        from headrace_connectors.files.row_check import LinesCheck

        encoder = encoder_of(context)
        return None if encoder is None else LinesCheck(context, encoder)

    def prepare(self, context: SinkContext) -> None:
        """Makes the folder. Raises UserError where that is not possible."""
        from headrace_connectors.files.parts.folder import make_folder

        make_folder(self.path)
