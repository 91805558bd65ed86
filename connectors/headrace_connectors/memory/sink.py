"""The memory sink: collects rows for a test."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Literal

from pydantic import Field

from headrace.connect.sink import Committable, SinkBatch, SinkConfig, SinkContext, Writer
from headrace_connectors.memory.store import Collected, collected_named


class MemorySinkConfig(SinkConfig):
    """Keeps rows under `name` for the test that opened it."""

    takes: ClassVar[Literal["messages", "rows"]] = "rows"
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "no"

    name: str = Field(min_length=1, description="the collection that a test opened under this name")

    @property
    def accepts_updates(self) -> bool:
        """Updating rows are stored unchanged."""
        return True

    @property
    def accepts_deletes(self) -> bool:
        """Deletes are stored as rows with `__op`."""
        return True

    def open_writer(self, context: SinkContext) -> Writer:
        """Opens a writer that appends to the collection."""
        return MemoryWriter(collected_named(self.name))


class MemoryWriter:
    """Appends batches to a collection."""

    def __init__(self, collected: Collected) -> None:
        self._collected = collected

    def write(self, batch: SinkBatch) -> None:
        """Stores a non-empty batch."""
        if len(batch):
            self._collected.add(batch.rows)

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Marks everything so far as durable."""
        self._collected.mark_flushed()
        return ()

    def close(self) -> None:
        """Does nothing: there are no resources."""
