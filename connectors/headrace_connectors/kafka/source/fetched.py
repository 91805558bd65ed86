"""What a Kafka reader is handed: columns of the records of one call, and the seam behind which the consumer may change.

Knows nothing of stops or positions: those are `reader`'s.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

import numpy as np
import polars as pl
import pyarrow as pa
from confluent_kafka import KafkaError

from headrace.connect.source import Offsets, SplitId
from headrace_connectors.kafka.clients.client import ClientWatch
from headrace_connectors.kafka.source.runs import Piece

T = TypeVar("T")
BINARY_BYTES_MAX = (1 << 31) - 1
"""Most bytes of an Arrow binary array; longer ones are large_binary."""


@dataclass(frozen=True, slots=True)
class FetchEvent:
    """Something that is no record: the end of a partition, or an error of one or of the whole client.

    offset   where it happened, for events of a partition
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
    """All records of the parts, of which there is one at least."""
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
    """What one call gave. `pieces` cover the columns in order; events come after the records."""

    pieces: Sequence[Piece] = ()
    columns: Columns | None = None
    events: Sequence[FetchEvent] = ()

    def __len__(self) -> int:
        """Records and events together: as many as were asked for means that there may be more."""
        return len(self.events) + (0 if self.columns is None else len(self.columns.values))


NOTHING = Fetched()


@dataclass(frozen=True, slots=True)
class FetchWish:
    """How to open a fetcher.

    settings    of the client, with the callbacks that `base_settings` gives
    watch       hears of the client's errors
    committed   told how each commit went; inside a call of the fetcher, by the same thread
    """

    settings: Mapping[str, Any]
    watch: ClientWatch
    committed: Callable[[KafkaError | None], None]
    wants_keys: bool = False
    wants_timestamps: bool = False
    wants_headers: bool = False


class RecordFetcher(Protocol):
    """A consumer with the partitions that it is given; used by one thread.

    What the client refuses is raised as confluent-kafka's KafkaException.
    """

    chunk_rows: int
    """Records a call that are cheapest."""

    def fetch(self, rows_max: int, wait_s: float) -> Fetched:
        """Waits until `rows_max` records and events are there or the time is up. Runs the callbacks."""
        ...

    def assign(self, positions: Mapping[SplitId, int]) -> None:
        """Adds partitions, each from an offset; others go on."""
        ...

    def unassign(self, split: SplitId) -> None:
        """Gives a partition up."""
        ...

    def pause(self, splits: Sequence[SplitId]) -> None:
        """Stops fetching; what was prefetched is thrown away and fetched again later."""
        ...

    def resume(self, splits: Sequence[SplitId]) -> None:
        """Goes on."""
        ...

    def commit(self, positions: Mapping[SplitId, int]) -> None:
        """Sends positions to the group and does not wait; `committed` hears how it went."""
        ...

    def log_bounds(self, split: SplitId, timeout_s: float) -> tuple[int, int]:
        """The first offset of a partition's log and the one after its last, as a broker says it."""
        ...

    def known_end(self, split: SplitId) -> int | None:
        """The log's end as of the last answer to a fetch; None where there was none yet."""
        ...

    def topic_error(self, topic: str, timeout_s: float) -> KafkaError | None:
        """What the brokers say is wrong with a topic."""
        ...

    def close(self) -> None:
        """Leaves the group and ends the client; unread records are dropped."""
        ...
