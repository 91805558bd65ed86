"""Rejects rows that Kafka refuses for themselves, before their records are sent: the broker refuses a whole batch, and
names no record of it.

Exact, not complete: a row is rejected here only if its record is refused for certain. Refusals that depend on
compression or on the broker's clock remain the broker's answer (`records.delivery_failed`), which names no row.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NoReturn

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from headrace.connect.row_check import refused_row
from headrace.core.batch import OP, TS
from headrace_connectors.kafka.clients.topic_limits import TopicLimits, read_topic_limits
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.sink.records import Records

RECORD_BYTES_MAX = 1_000_000
"""librdkafka's default of `message.max.bytes`."""
OVERHEAD_BYTES = 36
"""Bytes that librdkafka adds to a record's key, value and headers before it compares."""
CLOCK_TOLERANCE_MS = 60_000
"""Only a time that is further beyond the topic's limit than this is rejected here: the clocks of brokers differ."""
UNSENDABLE_TIMES_MS = (0, -1)
"""librdkafka sends 0 as the time of writing, and -1 means in Kafka's protocol that a record has no timestamp."""
_VARINT_BITS = 7


class RowRefusals:
    """The checks of one writer. `read_limits` asks the brokers; it is called only when a row is in doubt."""

    def __init__(self, config: KafkaSinkSettings, node: str, read_limits: Callable[[], TopicLimits]) -> None:
        self._topic, self._node, self._read_limits = config.topic, node, read_limits
        self._bytes_max = bytes_max(config)
        self._limits: TopicLimits | None = None

    def require(self, rows: pl.DataFrame, records: Records) -> None:
        """Raises DataError for a row whose record is too large for the client, or refused by the topic's settings."""
        require_small(rows, records, self._bytes_max, self._node)
        if records.timestamps is None and records.keys is not None and not records.keys.null_count:
            return
        if self._limits is None:
            self._limits = self._read_limits()
        if self._refused_by(self._limits, records) is None:
            return
        # the topic may have been changed meanwhile
        self._limits = self._read_limits()
        if (refused := self._refused_by(self._limits, records)) is not None:
            self._refuse(rows, *refused)

    def _refused_by(self, limits: TopicLimits, records: Records) -> tuple[int, str, str] | None:
        """(row, reason, remedy) of the first row that the topic refuses."""
        if limits.compacted and (row := _first_without_key(records)) is not None:
            why = f"a row has no key, and topic {self._topic!r} has cleanup.policy=compact"
            return row, why, "set `key:` to columns without NULLs, or filter such rows out before the sink"
        if records.timestamps is None or limits.assigns_times:
            return None
        ages = round(time.time() * 1000) - pl.Series(records.timestamps, dtype=pl.Int64)
        for setting, allowed_ms, by in (("after", limits.after_max_ms, -ages), ("before", limits.before_max_ms, ages)):
            if allowed_ms is not None and (late := (by > allowed_ms + CLOCK_TOLERANCE_MS).arg_true()).len():
                side = "ahead of" if setting == "after" else "behind"
                name = f"message.timestamp.{setting}.max.ms"
                why = (
                    f"the event time of a row is {by[late[0]]:,} ms {side} the clock, and {name} of topic "
                    f"{self._topic!r} is {allowed_ms:,}"
                )
                return late[0], why, f"filter such rows out before the sink, raise {name}, or write `timestamp: wall`"
        return None

    def _refuse(self, rows: pl.DataFrame, row: int, why: str, remedy: str) -> NoReturn:
        raise refused_row(self._node, why, rows[row], remedy)


def open_refusals(config: KafkaSinkSettings, node: str) -> RowRefusals:
    """The checks of a writer, with the limits of its topic."""
    return RowRefusals(config, node, lambda: read_topic_limits(config.brokers, config.topic, config.properties))


def require_event_times(rows: pl.DataFrame, node: str) -> None:
    """Raises DataError for the first row whose event time cannot be the timestamp of a record. Deletes may have none:
    a tombstone without one carries the time of writing."""
    times = rows.get_column(TS)
    bad = times.is_in(UNSENDABLE_TIMES_MS).fill_null(value=False)
    lacking = times.is_null()
    if OP in rows.columns:
        lacking = lacking & ~rows.get_column(OP).fill_null(value=False)
    if not (bad | lacking).any():
        return
    row = int((bad | lacking).arg_true()[0])
    what = "no event time" if times[row] is None else f"the event time {times[row]} ms, which no record can carry"
    raise refused_row(
        node,
        f"a row has {what}, and `timestamp: event` needs one",
        rows[row],
        "filter such rows out before the sink, or write `timestamp: wall`",
    )


def require_small(rows: pl.DataFrame, records: Records, bytes_max: int, node: str) -> None:
    """Raises DataError for the first row whose record exceeds the client's limit.

    bytes_max   as `bytes_max` returns it
    """
    if records.headers is None and _longest(records.values) + _longest(records.keys) + OVERHEAD_BYTES <= bytes_max:
        return
    sizes = _sizes(records)
    large = (sizes + OVERHEAD_BYTES > bytes_max).arg_true()
    if large.len():
        row = large[0]
        widest = max(rows.columns, key=lambda name: rows.get_column(name)[row : row + 1].estimated_size())
        raise refused_row(
            node,
            f"the record of a row has {sizes[row] + OVERHEAD_BYTES:,} bytes, most of them of column {widest}, and "
            f"message.max.bytes is {bytes_max:,}",
            rows[row],
            "raise the topic's max.message.bytes and `properties: {message.max.bytes: ..}`, or write less per row",
        )


def bytes_max(config: KafkaSinkSettings) -> int:
    """The client's limit for a record, `OVERHEAD_BYTES` included."""
    given = config.properties.get("message.max.bytes", "")
    return int(given) if given.isdecimal() else RECORD_BYTES_MAX


def _first_without_key(records: Records) -> int | None:
    if records.keys is None:
        return 0
    return int(pl.Series(records.keys.is_null()).arg_true()[0]) if records.keys.null_count else None


def _sizes(records: Records) -> pl.Series:
    """Bytes of key, value and headers of each record, as the client counts them."""
    sizes = _lengths(records.values)
    if records.keys is not None:
        sizes = sizes + _lengths(records.keys)
    if records.headers is not None:
        sizes = sizes + pl.Series("headers", [_headers_bytes(each) for each in records.headers], dtype=pl.Int64)
    return sizes


def _longest(column: pa.Array | None) -> int:
    return 0 if column is None else pc.max(pc.binary_length(column)).as_py() or 0


def _lengths(column: pa.Array) -> pl.Series:
    return pl.Series("bytes", pc.binary_length(column), dtype=pl.Int64).fill_null(0)


def _headers_bytes(headers: list[tuple[str, bytes | None]]) -> int:
    return sum(
        len(part) + _varint_bytes(len(part)) for name, value in headers for part in (name.encode(), value or b"")
    )


def _varint_bytes(number: int) -> int:
    """Size of a length as a varint, which encodes it as a signed number (zigzag)."""
    return max(-(-(2 * number).bit_length() // _VARINT_BITS), 1)
