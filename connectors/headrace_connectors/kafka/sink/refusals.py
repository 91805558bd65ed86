"""Finds rows that Kafka refuses for themselves, before their records are sent: the broker refuses a whole batch, and
names no record of it.

Exact, not complete: a row is refused here only if its record is refused for certain. Refusals that depend on
compression or on the broker's clock remain the broker's answer (`records.delivery_failed`), which names no row.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
from confluent_kafka import KafkaException
from confluent_kafka.admin._config import ConfigResource

from headrace.connect.row_check import Refusal, Refused, first_of
from headrace.core.batch import OP, TS
from headrace.core.errors import UnreachableError
from headrace.core.types import Schema
from headrace_connectors.kafka.clients.client import CONNECT_TIMEOUT_S, LOG, ClientWatch, answered, open_admin
from headrace_connectors.kafka.config import KafkaSinkSettings
from headrace_connectors.kafka.sink.keys import key_check, rows_without_key
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
_NO_LIMIT_MS = 2**63 - 1


class UnwritableRows:
    """Finds rows for which there is no record: no key in upsert mode, a key that JSON cannot tell apart, no time for
    `timestamp: event`. Needs only the rows."""

    def __init__(self, config: KafkaSinkSettings, schema: Schema) -> None:
        self._key, self._upserts, self._stamps = config.key, config.mode == "upsert", config.timestamp == "event"
        self._check = None if config.key is None else key_check(config.key, schema)

    def refused(self, rows: pl.DataFrame) -> Refused:
        """See RowCheck."""
        found: list[Refused] = []
        if self._key is not None and self._upserts:
            found.append(rows_without_key(self._key, rows))
        if self._check is not None:
            found.append(self._check.refused(rows))
        if self._stamps and TS in rows.columns:
            found.append(without_event_time(rows))
        return first_of(found)


class RefusedRecords:
    """Finds records that are too large for the client, or refused by the topic's settings.

    `read_limits` asks the brokers; it is called only when a row is in doubt.
    """

    def __init__(self, config: KafkaSinkSettings, read_limits: Callable[[], TopicLimits]) -> None:
        self._topic, self._read_limits = config.topic, read_limits
        self._bytes_max = bytes_max(config)
        self._limits: TopicLimits | None = None

    def refused(self, rows: pl.DataFrame, records: Records) -> Refused:
        """The refused ones of the records of these rows."""
        large = too_large(rows, records, self._bytes_max)
        if records.timestamps is None and records.keys is not None and not records.keys.null_count:
            return large
        if self._limits is None:
            self._limits = self._read_limits()
        found = self._refused_by(self._limits, records)
        if found:
            # the topic may have been changed meanwhile
            self._limits = self._read_limits()
            found = self._refused_by(self._limits, records)
        return first_of((large, found))

    def _refused_by(self, limits: TopicLimits, records: Records) -> Refused:
        found: dict[int, Refusal] = {}
        if limits.compacted:
            why = f"a row has no key, and topic {self._topic!r} has cleanup.policy=compact"
            remedy = "set `key:` to columns without NULLs, or filter such rows out before the sink"
            found |= dict.fromkeys(_without_key(records), Refusal(why, remedy))
        if records.timestamps is None or limits.assigns_times:
            return found
        ages = round(time.time() * 1000) - pl.Series(records.timestamps, dtype=pl.Int64)
        for setting, allowed_ms, by in (("after", limits.after_max_ms, -ages), ("before", limits.before_max_ms, ages)):
            if allowed_ms is None:
                continue
            side = "ahead of" if setting == "after" else "behind"
            name = f"message.timestamp.{setting}.max.ms"
            remedy = f"filter such rows out before the sink, raise {name}, or write `timestamp: wall`"
            for row in (by > allowed_ms + CLOCK_TOLERANCE_MS).arg_true():
                why = (
                    f"the event time of a row is {by[row]:,} ms {side} the clock, and {name} of topic "
                    f"{self._topic!r} is {allowed_ms:,}"
                )
                found.setdefault(row, Refusal(why, remedy))
        return found


def open_refused_records(config: KafkaSinkSettings) -> RefusedRecords:
    """The checks of a writer, with the limits of its topic."""
    return RefusedRecords(config, lambda: read_topic_limits(config.brokers, config.topic, config.properties))


def without_event_time(rows: pl.DataFrame) -> Refused:
    """The rows whose event time cannot be the timestamp of a record. Deletes may have none: a tombstone without one
    carries the time of writing."""
    times = rows.get_column(TS)
    bad = times.is_in(UNSENDABLE_TIMES_MS).fill_null(value=False)
    lacking = times.is_null()
    if OP in rows.columns:
        lacking = lacking & ~rows.get_column(OP).fill_null(value=False)
    return {row: _no_time(times[row]) for row in (bad | lacking).arg_true()}


def _no_time(time_ms: int | None) -> Refusal:
    what = "no event time" if time_ms is None else f"the event time {time_ms} ms, which no record can carry"
    return Refusal(
        f"a row has {what}, and `timestamp: event` needs one",
        "filter such rows out before the sink, or write `timestamp: wall`",
    )


def too_large(rows: pl.DataFrame, records: Records, bytes_max: int) -> Refused:
    """The rows whose record exceeds the client's limit.

    bytes_max   as `bytes_max` returns it
    """
    if records.headers is None and _longest(records.values) + _longest(records.keys) + OVERHEAD_BYTES <= bytes_max:
        return {}
    sizes = _sizes(records)
    return {
        row: _large(rows[row], sizes[row] + OVERHEAD_BYTES, bytes_max)
        for row in (sizes + OVERHEAD_BYTES > bytes_max).arg_true()
    }


def _large(row: pl.DataFrame, size: int, bytes_max: int) -> Refusal:
    widest = max(row.columns, key=lambda name: row.get_column(name).estimated_size())
    return Refusal(
        f"the record of a row has {size:,} bytes, most of them of column {widest}, and message.max.bytes is "
        f"{bytes_max:,}",
        "raise the topic's max.message.bytes and `properties: {message.max.bytes: ..}`, or write less per row",
    )


def bytes_max(config: KafkaSinkSettings) -> int:
    """The client's limit for a record, `OVERHEAD_BYTES` included."""
    given = config.properties.get("message.max.bytes", "")
    return int(given) if given.isdecimal() else RECORD_BYTES_MAX


def _without_key(records: Records) -> pl.Series:
    if records.keys is None:
        return pl.int_range(len(records), eager=True)
    return pl.Series(records.keys.is_null()).arg_true()


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


@dataclass(frozen=True, slots=True)
class TopicLimits:
    """None, or False: no limit, or none that is known.

    compacted       every record needs a key
    assigns_times   the brokers replace the timestamps of records, and so refuse none
    before_max_ms, after_max_ms   how far a timestamp may be behind and ahead of the broker's clock
    """

    compacted: bool = False
    assigns_times: bool = False
    before_max_ms: int | None = None
    after_max_ms: int | None = None


def read_topic_limits(brokers: str, topic: str, properties: Mapping[str, str]) -> TopicLimits:
    """Asks the brokers. Without an answer, or the right to describe the topic, no limit is known."""
    watch = ClientWatch(brokers)
    admin = open_admin(brokers, properties, watch)
    resource = ConfigResource(ConfigResource.Type.TOPIC, topic)
    try:
        found = answered(admin.describe_configs([resource], request_timeout=CONNECT_TIMEOUT_S)[resource], watch)
    except (KafkaException, UnreachableError) as error:
        LOG.info("the settings of topic %s are not known: %s", topic, error)
        return TopicLimits()
    return limits_of({name: entry.value for name, entry in found.items()})


def limits_of(settings: Mapping[str, str | None]) -> TopicLimits:
    """The limits in a topic's settings, by Kafka's names. Brokers before 3.6 have one limit for both directions."""
    both = settings.get("message.timestamp.difference.max.ms")
    return TopicLimits(
        compacted="compact" in (settings.get("cleanup.policy") or ""),
        assigns_times=settings.get("message.timestamp.type") == "LogAppendTime",
        before_max_ms=_limit_ms(settings.get("message.timestamp.before.max.ms", both)),
        after_max_ms=_limit_ms(settings.get("message.timestamp.after.max.ms", both)),
    )


def _limit_ms(text: str | None) -> int | None:
    value = int(text) if text else _NO_LIMIT_MS
    return None if value == _NO_LIMIT_MS else value
