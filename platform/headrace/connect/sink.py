"""The sink contract: config, writer, committer.

    SinkConfig           frozen and validated, from the pipeline file
      .open_writer()     -> Writer: one per subtask; accepts batches, and makes all of them durable at a barrier
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

Every name under which a writer may leave output open (a transactional id) is recorded before its first use: in the
attempt's record (`SinkConfig.transactions`), or in a checkpoint's (`Committable.successor`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, runtime_checkable

from headrace.connect.access import AccessCheck
from headrace.connect.format import Prepared
from headrace.connect.row_check import Refuse, Refused, raise_refused
from headrace.connect.sink_batch import SinkBatch
from headrace.core.config import Config

if TYPE_CHECKING:
    import polars as pl

    from headrace.connect.publisher import Publisher, Share
    from headrace.connect.row_check import Encode, RowCheck
    from headrace.core.types import Schema

__all__ = [
    "SinkBatch",
    "Committable",
    "CheckpointTerms",
    "SinkContext",
    "OpenTransaction",
    "Writer",
    "CommittedWriter",
    "WriterTransaction",
    "TransactionsWriter",
    "Committer",
    "OutputSeen",
    "OutputAudit",
    "AuditedCommitter",
    "SinkConfig",
]


@dataclass(frozen=True, slots=True)
class Committable:
    """Output that a writer prepared at a barrier and its committer makes visible; plain JSON values only.

    epoch       the epoch at whose barrier it was prepared
    payload     the connector's own data; `describe` may add to it
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
    """The checkpoint settings that a sink depends on.

    interval_ms          between checkpoints; None: none are taken
    timeout_ms           after which an incomplete checkpoint is aborted
    aligned              whether barriers are aligned (exactly-once mode)
    tolerable_failures   consecutive checkpoints that may fail before the job does
    restart_delay_ms     the longest that the restart strategy waits
    """

    interval_ms: int | None
    timeout_ms: int
    aligned: bool
    tolerable_failures: int
    restart_delay_ms: int


@dataclass(frozen=True, slots=True)
class SinkContext:
    """The arguments with which a sink is opened.

    job              the job's name; part of the names that the sink creates
    node             the sink's name
    subtask, parallelism   which writer this is
    schema           visible columns of the rows
    update_key       columns of the updating key, or None on an append edge
    format           name of the format beside the connector, or None; `format_options` its options
    attempt          number of the job's (re)start that this writer belongs to; 0: none yet
    checkpoint       checkpoint settings; None: the sink is opened without an engine
    refuse           receives the rows that a writer leaves out; None: the first one fails the job
    prepared         what the format's preparation learned, for a writer that encodes rows itself
    encode_keys      rows to the keys of their records by the sink's `key_format`; None: it has none
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
    refuse: Refuse | None = None
    prepared: Prepared | None = None
    encode_keys: Encode | None = None

    def refuse_rows(self, rows: pl.DataFrame, refused: Refused) -> None:
        """Called by a writer, in `write` or `flush`, for rows that the external system refuses for themselves: they are
        not written, and leave by the sink's `on_error`. Raises DataError for the first one if that is `fail`.

        rows   with all columns that `SinkBatch.rows` had
        """
        if not refused:
            return
        if self.refuse is None:
            raise_refused(self.node, rows, refused, also="or leave such rows out: `on_error: skip | divert`")
        else:
            self.refuse(rows, refused)


@dataclass(frozen=True, slots=True)
class OpenTransaction:
    """Output of a job that is neither committed nor aborted, as the external system reports it.

    name, sink, job, attempt, subtask   its owner; empty and -1 where the name does not encode it
    state        the external system's own term
    started_at_ms, timeout_ms   epoch ms and ms; 0: not known
    places       the places whose readers it blocks: topic partitions, a folder, a table
    identity     its part of `Committable.payload` after `describe`: distinguishes it from a later one of the same name
    ending       its commit or abort has begun, and the external system is completing it
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
        """Accepts rows, in order. Blocks while the writer's own bounded buffer is full: that is the backpressure.

        Raises ExternalError as soon as a write has failed permanently.
        """
        ...

    def flush(self, epoch: int) -> Sequence[Committable]:
        """Makes all written rows durable, or raises. Returns the output that must be committed."""
        ...

    def close(self) -> None:
        """Releases all resources without flushing. Idempotent."""
        ...


@runtime_checkable
class CommittedWriter(Writer, Protocol):
    """A writer that is notified when its prepared output is visible, so that it may reuse its names."""

    def committed(self, epoch: int, successors: Mapping[str, str]) -> None:
        """Everything that `flush` returned up to `epoch` is visible, and the journal records that.

        successors: name -> the name to use in its place from now on. Called by another thread than the other methods.
        """
        ...


@dataclass(frozen=True, slots=True)
class WriterTransaction:
    """A transaction that a writer has begun and that is not known to be committed.

    sink       the sink's name
    age_ms     since its first row
    prepared   a barrier has closed it
    """

    sink: str
    name: str
    age_ms: int
    prepared: bool = False


@runtime_checkable
class TransactionsWriter(Writer, Protocol):
    """A writer that shows its transactions to people."""

    def transactions(self) -> Sequence[WriterTransaction]:
        """Its open transactions, the oldest first. Called by another thread than `write`; never blocks for long."""
        ...


class Committer(Protocol):
    """Makes prepared output visible; lives beside the coordinator. Used by one thread.

    Methods retry transient failures for some seconds, then raise ExternalError with `retry`. The coordinator repeats
    such a call with the same arguments until the external system answers.
    """

    def describe(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Returns the committables with all data that `commit` needs. Called before the epoch is decided.

        Raises ExternalError (with or without `retry`, the attempt ends) if one of them can no longer be committed.
        """
        ...

    def commit(self, committables: Sequence[Committable]) -> Sequence[Committable]:
        """Publishes the committables. Idempotent: it is called again after a crash.

        Returns those that are lost: aborted by the external system (an expired transaction), and never visible.
        """
        ...

    def fence(self, names: Sequence[str]) -> None:
        """Aborts what is open under these names, and fences every writer that still holds one of them.

        Called after everything decided is committed and before a new attempt's writers open. Ignores names that were
        never used.
        """
        ...

    def sweep(self, attempt: int) -> Sequence[str]:
        """Aborts open output of this job and sink from attempts before `attempt`: transactions that a late writer of
        theirs has begun. Never touches output of later attempts, because the caller may itself be superseded. Returns
        the aborted names."""
        ...

    def open_transactions(self) -> Sequence[OpenTransaction]:
        """The open transactions of this job and sink; of all jobs if the context's job is empty."""
        ...

    def close(self) -> None:
        """Releases all resources. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class OutputSeen:
    """The part of the output that an audit has read so far.

    rows, digest   of the rows visible to readers, counted as `Committable` does: digest modulo 2^128 (`core.digest`)
    settled        everything visible has been read
    doubts         reasons why it may differ from the rows written without an error
    """

    rows: int
    digest: int
    settled: bool
    doubts: tuple[str, ...] = ()


class OutputAudit(Protocol):
    """Reads a sink's output back as a consumer would. Used by one thread."""

    def read(self, timeout_ms: int) -> OutputSeen:
        """Continues reading for about `timeout_ms`, or until everything visible is read; returns the totals since it
        began.

        May be called again after `settled`, for rows that have become visible since. Raises ExternalError.
        """
        ...

    def close(self) -> None:
        """Releases all resources. Idempotent."""
        ...


@runtime_checkable
class AuditedCommitter(Committer, Protocol):
    """A committer whose output can be read back and compared with the rows written."""

    def begin(self) -> dict[str, Any]:
        """The position where output written from now on begins (the end of a topic), as plain JSON values. Recorded
        once, when the job first starts."""
        ...

    def audit(self, begin: Mapping[str, Any]) -> OutputAudit:
        """Opens an audit of the output from `begin` on, a position that `AuditedCommitter.begin` returned."""
        ...


class SinkConfig(Config):
    """The frozen half of a sink. Subclasses declare the fields of the pipeline file and `open_writer`."""

    takes: ClassVar[Literal["messages", "rows"]] = "messages"
    """Whether the engine encodes rows by the `format:` beside the connector, or passes columns."""
    takes_format: ClassVar[Literal["required", "optional", "no"]] = "required"
    """Whether `format:` is set beside the connector."""

    files: ClassVar[bool] = False
    """Whether the sink writes whole files, and so accepts formats that are `file_only`."""

    @property
    def refuses(self) -> Literal["never", "in_write", "in_flush"]:
        """Where the writer calls `SinkContext.refuse_rows`: only in the `write` that brought the row, or also in a
        later call. With `never` the sink has no `on_error:`, and a row that cannot be written fails the job."""
        return "never"

    @property
    def only_topic(self) -> str | None:
        """The topic that the sink writes; None: several, or none."""
        return None

    @property
    def accepts_updates(self) -> bool:
        """Whether the sink accepts updating rows: upsert by key, or plain rows by the user's choice."""
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
    def encodes_keys(self) -> bool:
        """Whether the sink's key is that of a record, which `key_format:` may encode (`SinkContext.encode_keys`)."""
        return False

    @property
    def uses_event_time(self) -> bool:
        """Whether the writer reads the rows' `__ts`."""
        return False

    @property
    def referenced_columns(self) -> tuple[str, ...]:
        """Columns that the config names (key, headers); checked against the schema before the job starts."""
        return self.key_columns or ()

    def transactions(self, context: SinkContext) -> tuple[str, ...]:
        """The names under which this writer (subtask, attempt) may leave output open; empty for none. Pure."""
        return ()

    @property
    def refusals_depend_on(self) -> str | None:
        """The facts beside the rows that decide on refusals: a sink with `on_error` is then not replayable. None:
        `open_check` finds all of these rows."""
        return None

    def dead_letter_sink(
        self, topic: str, *, exactly_once: bool = False, commit_within_ms: int | None = None
    ) -> tuple[str, dict[str, Any]] | None:
        """As `SourceConfig.dead_letter_sink`, for rows that this sink refuses. None: they go where those of a step do,
        to the cluster of the source above."""
        return None

    @property
    def commit_within_ms(self) -> int | None:
        """Time until the external system discards prepared output that is not committed; None: never, or the sink
        prepares none."""
        return None

    @property
    def exactly_once(self) -> bool:
        """Whether output becomes visible by commit, so that `open_committer` returns a committer."""
        return False

    def check(self, context: SinkContext) -> list[str]:
        """Problems of this sink with these rows, as messages; found before the job starts, without I/O."""
        return []

    @abstractmethod
    def open_writer(self, context: SinkContext) -> Writer:
        """Opens the live half that writes."""

    def open_committer(self, context: SinkContext) -> Committer | None:
        """Opens the live half that commits; None if `flush` alone makes output durable and visible."""
        return None

    @property
    def publishes_once(self) -> bool:
        """Whether `open_publisher` returns a publisher. Pure."""
        return False

    def open_publisher(self, context: SinkContext, share: Share) -> Publisher | None:
        """Opens the live half that publishes staged rows once (`connect.publisher`).

        None if the sink cannot tell which rows are visible already: then one writer writes them, at least once.
        """
        return None

    def remembers_ms(self) -> int | None:
        """Least time for which the external system keeps its record of a published share, from the last publication on;
        None: no limit. May do I/O. Raises ExternalError."""
        return None

    def open_check(self, context: SinkContext, encode: Encode | None) -> RowCheck | None:
        """Returns a check that rejects rows which the sink cannot write, before they are staged; None if it can write
        every row of the schema. Does no I/O: every subtask that produces rows opens one (`connect.row_check`).

        encode   rows to messages, if the sink takes messages: for rows that can be judged only by their message
        """
        return None

    def open_access_check(self, context: SinkContext) -> AccessCheck | None:
        """Returns a check of the external system, for `headrace doctor`; None: the connector has none."""
        return None

    def prepare(self, context: SinkContext) -> None:
        """Checks the external system once, before any writer opens (topic exists, or is created). May do I/O.

        Raises UserError or ExternalError with the remedy.
        """
        return
