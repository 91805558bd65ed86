"""The settings of the archive sink: location and size of files, and the required columns.

Pure. The live half receives these settings; `connector` opens it.
"""

from __future__ import annotations

from typing import ClassVar, Literal

from pydantic import Field

from headrace.connect.metadata import METADATA
from headrace.connect.sink import SinkContext
from headrace.core.config import Config
from headrace.core.types import DataType, Primitive

_REMEDY = (
    "give it a Kafka source as it is, or the pipeline that `headrace archive TOPIC --print` shows: "
    "format: {raw: {tombstones: keep}}, schema: {value: binary} and "
    "metadata: {topic: topic, partition: partition, offset: offset, timestamp: timestamp, key: key, headers: headers}"
)

COLUMNS: dict[str, DataType] = {name: field.type for name, field in METADATA.items()} | {"value": Primitive.BINARY}
"""The required columns, as a raw Kafka source with metadata produces them."""


class ArchiveSinkSettings(Config):
    """The fields of an archive sink."""

    takes: ClassVar[Literal["messages", "rows"]] = "rows"
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    path: str = Field(min_length=1, description="a folder or URL, as the Kafka source's `archive:` names it")
    max_rows: int = Field(default=2_000_000, ge=1, description="rows in a file; a checkpoint ends a file as well")
    max_bytes: int = Field(
        default=128 << 20, ge=1, description="bytes of a file, about, and of all files under way in a subtask's memory"
    )

    @property
    def referenced_columns(self) -> tuple[str, ...]:
        """None: `check` reports missing columns, with a remedy."""
        return ()

    def check(self, context: SinkContext) -> list[str]:
        """Requires exactly the rows of a raw Kafka source with all of its metadata."""
        problems = []
        for name, wanted in COLUMNS.items():
            if name not in context.schema.names:
                problems.append(f"an archive needs column {name}: {_REMEDY}")
            elif context.schema.field(name).type != wanted:
                problems.append(f"column {name} is {context.schema.field(name).type}, not {wanted}: {_REMEDY}")
        if more := [name for name in context.schema.names if name not in COLUMNS]:
            problems.append(f"an archive keeps records as they are, without {', '.join(more)}: drop such columns")
        return problems
