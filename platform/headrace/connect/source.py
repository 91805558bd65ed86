"""The source contract: config, enumerator, reader.

    SourceConfig          frozen and validated, from the pipeline file
      .open_enumerator()  -> Enumerator: resolves the splits once, before any reader starts, and finds new ones later
      .open_reader()      -> Reader: assigned splits, polled for batches; lives in a slot and makes no decisions

A **split** is one source partition with the positions that a run reads between. Positions are int64 and grow within a
partition; their meaning (Kafka offset, file and line) is the connector's own, and `describe_position` renders them for
people. The engine owns the loop, the decoding, event time and watermarks: a reader only assigns, polls and commits.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, NamedTuple, Protocol, TypeAlias, runtime_checkable

from headrace.connect.access import AccessCheck
from headrace.core.config import Config

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars as pl
    import pyarrow as pa

    from headrace.core.types import Schema

# a string: code that only reads checkpoints, such as the coordinator, loads neither numpy nor polars for it
Offsets: TypeAlias = "npt.NDArray[np.int64]"


class SplitId(NamedTuple):
    """A source partition; compares by topic, then partition."""

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}[{self.partition}]"


@dataclass(frozen=True, slots=True)
class Split:
    """A partition and the range to read: from `start` (inclusive) to `stop` (exclusive; None: unbounded).

    detail     further data that the enumerator fixed for the reader when it resolved the split; restarts keep it
    identity   the log behind the name: another log of the same name has another identity; empty: not known
    """

    id: SplitId
    start: int
    stop: int | None = None
    detail: tuple[str, ...] = ()
    identity: str = ""

    def starting_at(self, position: int) -> Split:
        """The same split read from another position."""
        return replace(self, start=position)


@dataclass(frozen=True, slots=True)
class Run:
    """Rows [begin, end) of a batch came from one partition, in position order."""

    split: SplitId
    begin: int
    end: int


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """n undecoded messages, for a format to decode.

    values      Arrow binary, large_binary or binary_view of length n; NULL is a tombstone
    positions   int64[n], growing within a run
    runs        cover [0, n) in order; a partition may have several
    timestamps  int64[n] epoch ms of the records, or None where the source has none
    keys        Arrow binary of length n, only if `metadata` includes them; NULL where the record has none
    headers     polars Series of list<struct{key: string, value: binary}>, only if `metadata` includes them
    """

    values: pa.Array
    positions: Offsets
    runs: tuple[Run, ...]
    timestamps: Offsets | None = None
    keys: pa.Array | None = None
    headers: pl.Series | None = None

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, slots=True)
class RowBatch:
    """n rows that the connector itself returns as columns of the node's schema (generator, memory, Parquet files).

    `timestamps` as in MessageBatch. A frame that lacks a nullable column of the schema reads as NULL there.
    `bad`: number of a row that cannot be read -> reason; the source's `on_error` decides about it.
    """

    rows: pl.DataFrame
    positions: Offsets
    runs: tuple[Run, ...]
    timestamps: Offsets | None = None
    bad: Mapping[int, str] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.positions)


@dataclass(frozen=True, slots=True)
class Polled:
    """The result of one poll.

    batch      rows, or None
    positions  the next position of every partition that moved, also past control records and gaps of compaction;
               without an entry: unchanged
    at_end     partitions at their log's end (for idleness); a partition leaves this set by delivering
    finished   partitions that reached their `stop`: nothing follows
    lag        messages between position and log end, for partitions where it is known
    remarks    what users should know of the input, a sentence each; shown once as warnings, and decided upon by nobody
    """

    batch: MessageBatch | RowBatch | None = None
    positions: Mapping[SplitId, int] = field(default_factory=dict)
    at_end: frozenset[SplitId] = frozenset()
    finished: frozenset[SplitId] = frozenset()
    lag: Mapping[SplitId, int] = field(default_factory=dict)
    remarks: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SourceContext:
    """The arguments with which a source is opened.

    pipeline, node   names; the default consumer group is built from them
    schema           the node's declared columns
    format           name of the format beside the connector, or None; `format_options` its options
    poll_rows_max    upper bound of rows in one poll
    wants_keys, wants_headers the node's `metadata` includes them
    wants_timestamps   the records' timestamps are event time, or the node's `metadata` includes them
    """

    pipeline: str
    node: str
    schema: Schema
    format: str | None = None
    format_options: Mapping[str, Any] = field(default_factory=dict)
    poll_rows_max: int = 32_768
    wants_keys: bool = False
    wants_headers: bool = False
    wants_timestamps: bool = False


class Enumerator(Protocol):
    """Resolves a source's partitions and positions; lives beside the coordinator, one per source of a job."""

    def discover(self) -> Sequence[Split]:
        """All splits, with `start` and `stop` resolved. Called once at the start and then every
        `discovery_interval_ms`; a split keeps its first result, later calls may only add splits.

        Raises UserError (no such topic, expired offset) or ExternalError (not reachable) with the remedy.
        """
        ...

    @property
    def discovery_interval_ms(self) -> int | None:
        """Interval between calls of `discover`; None: only once."""
        ...

    def close(self) -> None:
        """Releases all resources. Idempotent."""
        ...


@runtime_checkable
class RestorableEnumerator(Enumerator, Protocol):
    """An enumerator that continues from splits resolved before (`connect.restored` does it for others).

    It matters if the start of a split found later differs from the config: Kafka reads new partitions from the earliest
    offset, whatever `start` is.
    """

    def restore(self, splits: Sequence[Split], *, foreign: bool) -> None:
        """Called once, before the first `discover`. That call then returns these splits with their recorded `start`,
        `stop` and `detail`, and new ones from their beginning.

        foreign   they come from another job (a savepoint): `stop` is resolved anew, and a bounded source continues with
                  data added since. A split that no longer exists raises UserError.
        """
        ...


@runtime_checkable
class IdentifyingEnumerator(Enumerator, Protocol):
    """An enumerator that can tell a split's log from another one of the same name: its splits have an `identity`."""

    def replaced(self, known: Sequence[Split]) -> Mapping[str, str]:
        """Topic -> what stands in its place, for topics of `known` whose log is another one now.

        Called before `restore`. A split without an identity counts as the same. Raises ExternalError.
        """
        ...


class Reader(Protocol):
    """Reads assigned splits. Used by one thread at a time; by two threads in turn if `SourceConfig.reads_ahead`."""

    def assign(self, splits: Sequence[Split]) -> None:
        """Adds splits to read, each from its `start`. Splits assigned before continue without a gap.

        A reader that knows identities returns no row of a split whose log has another `identity`: `poll` raises
        UserError.
        """
        ...

    def poll(self, timeout_ms: int) -> Polled:
        """Waits up to `timeout_ms` for rows; returns at most `poll_rows_max` of them.

        Within a partition rows are returned in position order, without loss or repetition. The reader itself retries a
        lost connection (the poll returns rows or nothing); an expired or impossible position raises UserError.
        """
        ...

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Stops delivering these partitions until `resume`."""
        ...

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Continues paused partitions, without a gap."""
        ...

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Publishes positions whose effects are durable (Kafka: group offsets). For monitoring and
        `start: committed`; must not block for long and may do nothing."""
        ...

    def close(self) -> None:
        """Releases all resources. Idempotent."""
        ...


@runtime_checkable
class ConfirmingReader(Reader, Protocol):
    """A reader that can confirm that all rows so far are of the logs that its splits name."""

    def confirm(self) -> None:
        """Called at a barrier, before positions become state. Waits for about a second at most; raises UserError if a
        log has been replaced. Without an answer it confirms nothing, and returns."""
        ...


class SourceConfig(Config):
    """The frozen half of a source. Subclasses declare the fields of the pipeline file and the two `open` methods."""

    takes_format: ClassVar[Literal["required", "optional", "no"]] = "required"
    """Whether `format:` is set beside the connector."""
    files: ClassVar[bool] = False
    """Whether the source reads whole files, and so accepts formats that are `file_only`."""
    record_time: ClassVar[bool] = False
    """Whether records carry a timestamp that serves as event time where the node has no `time:`."""
    reads_ahead: ClassVar[bool] = False
    """Whether the engine may poll one batch ahead in a second thread while the chain works on the batch before. Worth
    it if a poll waits or works outside of the interpreter lock; the client must not be bound to one thread."""
    metadata_fields: ClassVar[tuple[str, ...]] = ()
    """The names that `metadata:` may request."""

    @property
    def bounded(self) -> bool:
        """Whether the source is bounded: it ends without being stopped."""
        return False

    @property
    def metadata_columns(self) -> Mapping[str, str]:
        """Metadata field (topic, partition, offset, timestamp, key, headers) -> name of its column."""
        return {}

    @property
    def only_topic(self) -> str | None:
        """The topic that the source reads; None: several, or none."""
        return None

    def describe_position(self, split: SplitId, position: int) -> str:
        """A position as text: `flights[2] offset 17`."""
        return f"{split} offset {position}"

    def open_access_check(self, context: SourceContext) -> AccessCheck | None:
        """Returns a check of the external system, for `headrace doctor`; None: the connector has none."""
        return None

    def dead_letter_sink(
        self, topic: str, *, exactly_once: bool = False, commit_within_ms: int | None = None
    ) -> tuple[str, dict[str, Any]] | None:
        """Connector name and fields of a sink on the same cluster that writes to `topic`, for `on_error: {dead_letter:
        <topic>}`; None if the connector has no such sink.

        exactly_once       a sink of the job is exactly-once: this one is too, if it can
        commit_within_ms   the shortest `SinkConfig.commit_within_ms` of the job's sinks; None: no limit
        """
        return None

    @abstractmethod
    def open_enumerator(self, context: SourceContext) -> Enumerator:
        """Opens the live half that resolves splits."""

    @abstractmethod
    def open_reader(self, context: SourceContext) -> Reader:
        """Opens the live half that reads."""
