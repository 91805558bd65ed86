"""Columns of fetched records, and the protocol of consumers. Must not know stops and positions: `reader` owns them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from confluent_kafka import KafkaError

from headrace.connect.source import Offsets, SplitId
from headrace.core.arrow_arrays import BINARY_BYTES_MAX
from headrace_connectors.kafka.clients.client import ClientWatch
from headrace_connectors.kafka.source.runs import Piece

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FetchEvent:
    """An event other than a record: the end of a partition, or an error of a partition or of the client.

    offset   of the event, for events of a partition
    """

    error: KafkaError
    split: SplitId | None = None
    offset: int | None = None


@dataclass(frozen=True, slots=True)
class Columns:
    """n records. They own their memory.

    values, keys   Arrow binary, large_binary or binary_view; NULL is a tombstone, or a record without a key
    timestamps     int64[n] epoch ms
    headers        polars Series of list<struct{key, value}>
    """

    values: pa.Array
    keys: pa.Array | None = None
    timestamps: Offsets | None = None
    headers: pl.Series | None = None

    def slice(self, begin: int, end: int) -> Columns:
        """Records [begin, end)."""
        return Columns(
            self.values.slice(begin, end - begin),
            None if self.keys is None else self.keys.slice(begin, end - begin),
            None if self.timestamps is None else self.timestamps[begin:end],
            None if self.headers is None else self.headers.slice(begin, end - begin),
        )


def joined(parts: Sequence[Columns]) -> Columns:
    """All records of the parts; at least one part."""
    first = parts[0]
    if len(parts) == 1:
        return first
    return Columns(
        _concatenated([part.values for part in parts]),
        None if first.keys is None else _concatenated([part.keys for part in parts]),
        None if first.timestamps is None else np.concatenate([_there(part.timestamps) for part in parts]),
        None if first.headers is None else pl.concat([_there(part.headers) for part in parts]),
    )


def _there(column: T | None) -> T:
    assert column is not None, "parts have the same columns"
    return column


def _concatenated(parts: Sequence[pa.Array]) -> pa.Array:
    total = sum(part.nbytes for part in parts)
    if total > BINARY_BYTES_MAX or len({part.type for part in parts}) > 1:
        parts = [part.cast(pa.large_binary()) for part in parts]
    return pa.concat_arrays(parts)


@dataclass(frozen=True, slots=True)
class Fetched:
    """The result of one fetch. `pieces` cover the columns in order; events come after the records."""

    pieces: Sequence[Piece] = ()
    columns: Columns | None = None
    events: Sequence[FetchEvent] = ()

    def __len__(self) -> int:
        """Number of records and events: if it equals the requested number, there may be more."""
        return len(self.events) + (0 if self.columns is None else len(self.columns.values))


NOTHING = Fetched()


@dataclass(frozen=True, slots=True)
class FetchWish:
    """The arguments for opening a fetcher.

    settings    of the client, with the callbacks of `base_settings`
    watch       receives the client's errors
    committed   called with the outcome of each commit, inside a call of the fetcher, by the same thread
    """

    settings: Mapping[str, Any]
    watch: ClientWatch
    committed: Callable[[KafkaError | None], None]
    wants_keys: bool = False
    wants_timestamps: bool = False
    wants_headers: bool = False


class RecordFetcher(Protocol):
    """A consumer with assigned partitions; used by one thread.

    Client errors are raised as confluent-kafka's KafkaException.
    """

    chunk_rows: int
    """The most efficient number of records per call."""

    def fetch(self, rows_max: int, wait_s: float) -> Fetched:
        """Waits for `rows_max` records and events, or until the time is up. Runs the callbacks."""
        ...

    def assign(self, positions: Mapping[SplitId, int]) -> None:
        """Adds partitions, each from an offset; others continue."""
        ...

    def unassign(self, split: SplitId) -> None:
        """Removes a partition."""
        ...

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Stops fetching; prefetched records are discarded and fetched again later."""
        ...

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Continues fetching."""
        ...

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Sends positions to the group without waiting; `committed` receives the outcome."""
        ...

    def log_bounds(self, split: SplitId, timeout_s: float) -> tuple[int, int]:
        """The first offset of a partition's log and the one after its last, from a broker."""
        ...

    def known_end(self, split: SplitId) -> int | None:
        """The log end as of the last fetch response; None before the first."""
        ...

    def topic_error(self, topic: str, timeout_s: float) -> KafkaError | None:
        """The brokers' error for a topic."""
        ...

    def close(self) -> None:
        """Leaves the group and closes the client; unread records are discarded."""
        ...
