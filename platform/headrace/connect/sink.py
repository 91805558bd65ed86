"""The sink contract: config, writer, committer.

    SinkConfig           frozen and validated, from the pipeline file
      .open_writer()     -> Writer: one for each subtask; takes batches, and at a barrier makes all of them durable
      .open_committer()  -> Committer, for sinks whose output appears only when an epoch is committed; else None

At-least-once: `flush` returns only when everything written is durable and no write failed; only then do source
positions advance. Sinks that publish by commit return committables from `flush`, and the committer, which lives beside
the coordinator, makes them visible (idempotently).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Protocol

import polars as pl
import pyarrow as pa

from headrace.core.config import Config
from headrace.core.types import Schema


@dataclass(frozen=True, slots=True)
class SinkBatch:
    """n rows to write.

    rows      polars frame with the visible columns and the hidden `__ts` and, where rows are deletes, `__op`
    messages  the rows encoded by the sink's format: Arrow large_binary, large_string or string_view of length n;
              None where the sink takes rows (`takes = "rows"`)
    """

    rows: pl.DataFrame
    messages: pa.Array | None = None

    def __len__(self) -> int:
        return self.rows.height


@dataclass(frozen=True, slots=True)
class Committable:
    """What a writer prepared at a barrier and its committer makes visible; plain JSON values only."""

    sink: str
    subtask: int
    epoch: int
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink is told when it is opened.

    job              names the run; part of names that the sink makes
    node             the sink's name
    subtask, parallelism   which writer this is
    schema           visible columns of the rows
    update_key       columns of the updating key, or None on an append edge
    format           name of the format beside the connector, or None; `format_options` its options
    """

    job: str
    node: str
    subtask: int
    parallelism: int
    schema: Schema
    update_key: tuple[str, ...] | None = None
    format: str | None = None
    format_options: dict[str, Any] = field(default_factory=dict)


class Writer(Protocol):
    """Writes rows; used by one thread."""

    def write(self, batch: SinkBatch) -> None:
        """Takes rows, in order. Blocks while its own bounded buffer is full: that is the backpressure.

        Raises ExternalError as soon as a write is known to have failed for good.
        """
        ...

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Makes everything written so far durable, with zero errors, or raises. Gives what must be committed."""
        ...

    def close(self) -> None:
        """Releases what it holds without flushing. Idempotent."""
        ...


class Committer(Protocol):
    """Makes prepared output visible; lives beside the coordinator."""

    def commit(self, committables: Sequence[Committable]) -> None:
        """Publishes them. Called again after a crash: a second call changes nothing."""
        ...

    def close(self) -> None:
        """Releases what it holds. Idempotent."""
        ...


class SinkConfig(Config):
    """The frozen half of a sink. Subclasses declare the fields of the pipeline file and `open_writer`."""

    takes: ClassVar[Literal["messages", "rows"]] = "messages"
    """Whether the engine encodes rows by the `format:` beside the connector, or hands over columns."""
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "required"
    """Whether `format:` stands beside the connector."""

    files: ClassVar[bool] = False
    """Whether it writes whole files, and so takes formats that are `file_only`."""

    @property
    def accepts_updates(self) -> bool:
        """Whether updating rows are fine: upsert by key, or written as plain rows by the user's choice."""
        return False

    @property
    def accepts_deletes(self) -> bool:
        """Whether a delete of an updating edge can be written (tombstone, DELETE)."""
        return False

    @property
    def key_columns(self) -> tuple[str, ...] | None:
        """Columns of the sink's key, in its order; None: no key."""
        return None

    @property
    def uses_event_time(self) -> bool:
        """Whether the writer looks at the rows' `__ts`."""
        return False

    @property
    def referenced_columns(self) -> tuple[str, ...]:
        """Columns that the config names (key, headers): checked against the schema before anything runs."""
        return self.key_columns or ()

    def check(self, context: SinkContext) -> list[str]:
        """What is wrong with this sink for these rows, as messages; found before anything runs, without I/O."""
        return []

    @abstractmethod
    def open_writer(self, context: SinkContext) -> Writer:
        """The live part that writes."""

    def open_committer(self, context: SinkContext) -> Committer | None:
        """The live part that commits; None where `flush` alone makes output durable and visible."""
        return None

    def prepare(self, context: SinkContext) -> None:
        """Checks the outside once, before any writer opens (topic exists, or is created). May do I/O.

        Raises UserError or ExternalError with the remedy.
        """
        return
