"""The settings of the files source and sink: fields of the pipeline file, and derived facts.

Pure: touches no file. The live halves take these settings; `connector` opens them.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from headrace.connect.checkpoint_terms import refused_terms
from headrace.connect.offsets_by_partition import StopField
from headrace.connect.sink import SinkContext
from headrace.core.config import Config
from headrace_connectors.files.parts.part_names import WriterName


class FilesSourceSettings(Config):
    """The fields of a files source."""

    takes_format: ClassVar[Literal["required", "optional", "no"]] = "required"
    files: ClassVar[bool] = True

    path: str = Field(
        min_length=1,
        description="a file, or, if none has this name, a glob such as data/*.json; gzip and zstd are unpacked",
    )
    partitions: int = Field(
        default=1, ge=1, le=10_000, description="number of partitions that the files are distributed over, by name"
    )
    stop: StopField = Field(
        default=None,
        description="where to end: {<partition>: <position>}, as a savepoint has them; latest: at the last file's end",
    )

    @property
    def bounded(self) -> bool:
        """Always true: files end."""
        return True


class FilesSinkSettings(Config):
    """The fields of a files sink."""

    # rows, not messages: Parquet stores columns; text formats are encoded by the sink
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
        """Whether files become visible by commit."""
        return self.delivery == "exactly-once"

    def transactions(self, context: SinkContext) -> tuple[str, ...]:
        """The writer name in the names of this writer's hidden files."""
        return (str(WriterName.of(context)),) if self.exactly_once else ()

    def check(self, context: SinkContext) -> list[str]:
        """Reasons why files cannot appear exactly once with these checkpoints."""
        return refused_terms(context.checkpoint) if self.exactly_once else []

    @property
    def publishes_once(self) -> bool:
        """Always true, whatever `delivery` a live job uses."""
        return True
