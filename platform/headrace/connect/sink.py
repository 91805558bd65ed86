"""The sink contract: config, writer, committer.

    SinkConfig           frozen and validated, from the pipeline file
      .open_writer()     -> Writer: one for each subtask; takes batches, and at a barrier makes all of them durable
      .open_committer()  -> Committer, for sinks whose output appears only when an epoch is committed; else None

At-least-once: `flush` returns only when everything written is durable and no write failed; only then do source
positions advance.

Exactly-once is two-phase commit, with the committer beside the coordinator, so that a dead worker never delays or loses
a commit:

    writer                          committer                          journal
    flush(7) -> committables ─────> describe: can they be committed? ─> checkpoint 7  (the decision)
                                    commit: makes them visible ───────> committed 7
    committed(7) <────────────────────────────────────────────────────┘

    a new attempt:  commit what is decided ─> `attempt` record ─> fence what earlier attempts left open ─> writers open

Everything a writer may leave open under a name (a transactional id) is named beforehand, in the attempt's record
(`SinkConfig.transactions`), or before its first use in a checkpoint's (`Committable.successor`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from headrace.core.config import Config

if TYPE_CHECKING:
    import polars as pl
    import pyarrow as pa

    from headrace.connect.publisher import Publisher, Share
    from headrace.connect.row_check import Encode, RowCheck
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
    """What a writer prepared at a barrier and its committer makes visible; plain JSON values only.

    epoch       the epoch at whose barrier it was prepared
    payload     the connector's own words; `describe` may add to them
    name        under which it is open outside (a transactional id), or empty
    rows        rows in it; digest: their order-free hash as 32 hex digits (`core.digest`), or empty: not hashed
    successor   the name that its writer uses in place of `name` once this epoch is committed; set by `describe`
    """

    sink: str
    subtask: int
    epoch: int
    payload: dict[str, Any]
    name: str = ""
    rows: int = 0
    digest: str = ""
    successor: str = ""


@dataclass(frozen=True, slots=True)
class CheckpointTerms:
    """How often epochs are committed, as far as a sink must know it.

    interval_ms          between checkpoints; None: none are taken
    timeout_ms           after which a checkpoint that is not complete is given up
    aligned              whether barriers are aligned (exactly-once mode)
    tolerable_failures   checkpoints in a row that may fail while the job goes on
    restart_delay_ms     the longest that the restart strategy waits
    """

    interval_ms: int | None
    timeout_ms: int
    aligned: bool
    tolerable_failures: int
    restart_delay_ms: int


@dataclass(frozen=True, slots=True)
class SinkContext:
    """What a sink is told when it is opened.

    job              names the run; part of names that the sink makes
    node             the sink's name
    subtask, parallelism   which writer this is
    schema           visible columns of the rows
    update_key       columns of the updating key, or None on an append edge
    format           name of the format beside the connector, or None; `format_options` its options
    attempt          the (re)start of the job that this writer belongs to; 0 where there is none yet
    checkpoint       the terms of checkpoints; None where the sink is opened without an engine
    """

    job: str
    node: str
    subtask: int
    parallelism: int
    schema: Schema
    update_key: tuple[str, ...] | None = None
    format: str | None = None
    format_options: dict[str, Any] = field(default_factory=dict)
    attempt: int = 0
    checkpoint: CheckpointTerms | None = None


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """Output of ours that is neither visible nor given up, as the outside tells of it.

    name, sink, job, attempt, subtask   whose it is; empty and -1 where the name does not say
    state        the outside's own word
    started_at_ms, timeout_ms   epoch ms and ms; 0: not known
    places       what it holds back: topic partitions, a folder, a table
    identity     what `Committable.payload` has of it after `describe`: tells it from a later one of the same name
    ending       it was committed or aborted already, and the outside is about to settle it
    """

    name: str
    sink: str = ""
    job: str = ""
    attempt: int = -1
    subtask: int = -1
    state: str = ""
    started_at_ms: int = 0
    timeout_ms: int = 0
    places: tuple[str, ...] = ()
    identity: dict[str, Any] = field(default_factory=dict)
    ending: bool = False


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


@runtime_checkable
class CommittedWriter(Writer, Protocol):
    """A writer that hears when what it prepared is visible, so that it may use its names again."""

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """Everything that `flush` gave up to `epoch` is visible, and that stands in the journal.

        successors: name -> the name to be used in its place from now on. Called by another thread than the others.
        """
        ...


class Committer(Protocol):
    """Makes prepared output visible; lives beside the coordinator. Used by one thread.

    Methods wait out what passes by itself for some seconds, then raise ExternalError with `retry`: they are called
    again with the same until the outside answers.
    """

    def describe(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Before the epoch is decided: the same with all that `commit` needs to know of them.

        Raises ExternalError (`retry` or not, the attempt ends) where one of them can no longer be committed.
        """
        ...

    def commit(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Publishes them. Called again after a crash: a second call changes nothing.

        Gives those that are lost for good: given up outside (a transaction that expired), not visible, never to be.
        """
        ...

    def fence(self, names: Sequence[str]) -> None:
        """Ends what is open under these names without publishing it, and shuts out whoever still holds one of them.

        Called when everything decided is committed and before a new attempt's writers open. Names never used are
        passed over.
        """
        ...

    def sweep(self, attempt: int) -> Sequence[str]:
        """Ends what is open of this job and sink by attempts before `attempt`: what a writer of theirs that woke up
        late has begun. Never what a later one has open: who asks may have been replaced. Gives the names it ended."""
        ...

    def open_transactions(self) -> Sequence[OpenTransaction]:
        """What is open of this job and sink; where the context's job is empty, of all jobs."""
        ...

    def close(self) -> None:
        """Releases what it holds. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class OutputSeen:
    """What an audit has read so far.

    rows, digest   of what readers see, as `Committable` counts them: digest modulo 2^128 (`core.digest`)
    settled        all that is visible now has been read
    doubts         why it may differ from what was written, though nothing went wrong
    """

    rows: int
    digest: int
    settled: bool
    doubts: tuple[str, ...] = ()


class OutputAudit(Protocol):
    """Reads a sink's output back, as its readers would. Used by one thread."""

    def read(self, timeout_ms: int) -> OutputSeen:
        """Reads on for about that long, or until everything visible is read; gives all that was read since it began.

        After `settled` it may be called again: for what has become visible since. Raises ExternalError.
        """
        ...

    def close(self) -> None:
        """Releases what it holds. Idempotent."""
        ...


@runtime_checkable
class AuditedCommitter(Committer, Protocol):
    """A committer whose output can be read back and proven against what was written."""

    def begin(self) -> dict[str, Any]:
        """Where output begins that is written from now on (the end of a topic), as plain JSON values: noted once, when
        the job first starts."""
        ...

    def audit(self, begin: Mapping[str, Any]) -> OutputAudit:
        """Begins to read the output from there (what `begin` gave) on."""
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

    def transactions(self, context: SinkContext) -> tuple[str, ...]:
        """The names under which this writer (subtask, attempt) may leave output open. Pure. Empty: under none."""
        return ()

    @property
    def commit_within_ms(self) -> int | None:
        """How long prepared output waits to be committed before the outside gives it up; None: for ever, or there is
        none."""
        return None

    @property
    def exactly_once(self) -> bool:
        """Whether output appears by commit: `open_committer` gives one."""
        return False

    def check(self, context: SinkContext) -> list[str]:
        """What is wrong with this sink for these rows, as messages; found before anything runs, without I/O."""
        return []

    @abstractmethod
    def open_writer(self, context: SinkContext) -> Writer:
        """The live part that writes."""

    def open_committer(self, context: SinkContext) -> Committer | None:
        """The live part that commits; None where `flush` alone makes output durable and visible."""
        return None

    @property
    def publishes_once(self) -> bool:
        """Whether `open_publisher` gives one. Pure."""
        return False

    def open_publisher(self, context: SinkContext, share: Share) -> Publisher | None:
        """The live part that publishes staged rows once (`connect.publisher`); None where the sink cannot tell what of
        them is visible already: then they are written in one place, by a writer, at least once."""
        return None

    def remembers_ms(self) -> int | None:
        """How long the outside remembers, at the least, what of a share is published, from its last publication on;
        None: for ever. May do I/O. Raises ExternalError."""
        return None

    def open_check(self, context: SinkContext, encode: Encode | None) -> RowCheck | None:
        """What refuses rows that the sink could not write, before they are staged to be published; None: it writes
        every row of the schema. Without I/O: it is opened wherever rows are made (`connect.row_check`).

        encode   rows to messages, where the sink takes messages: for rows that only their message can be judged by
        """
        return None

    def prepare(self, context: SinkContext) -> None:
        """Checks the outside once, before any writer opens (topic exists, or is created). May do I/O.

        Raises UserError or ExternalError with the remedy.
        """
        return
