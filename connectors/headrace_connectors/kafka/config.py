"""The settings of the Kafka source and sink: fields of the pipeline file, their validation, and derived facts. Pure:
queries no broker and imports no client library. The package opens sources and sinks with these settings."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from headrace.connect.checkpoint_terms import refused_terms
from headrace.connect.sink import CheckpointTerms, SinkContext
from headrace.connect.source import SourceContext, SplitId
from headrace.core.config import Address, Config, Duration, duration_text
from headrace_connectors.kafka.clients.broker_list import hosts_and_ports
from headrace_connectors.kafka.clients.properties import (
    OWNED_BY_SINK,
    OWNED_BY_SOURCE,
    PropertiesField,
    connection_settings,
    refused,
)
from headrace_connectors.kafka.clients.transaction_names import lanes_of, names_of
from headrace_connectors.kafka.source.start_stop import StartField, StopField

TRANSACTION_TIMEOUT_MIN_MS = 1_000
TRANSACTION_TIMEOUT_MAX_MS = 2**31 - 1
"""The client library's limits of the transaction timeout, in ms."""

_SOCKET_TIMEOUT_MS = 60_000
_MESSAGE_TIMEOUT_MS = 300_000
_SOCKET_TIMEOUT_NAME = "socket.timeout.ms"
_MESSAGE_TIMEOUT_NAMES = ("message.timeout.ms", "delivery.timeout.ms")


def unmet_terms(terms: CheckpointTerms, transaction_timeout_ms: int) -> list[str]:
    """The reasons why exactly-once delivery is impossible with these checkpoint settings, as messages with remedies;
    empty: it is possible."""
    refused = refused_terms(terms)
    if refused or terms.interval_ms is None:
        return refused
    parts = {
        "checkpoint.interval": terms.interval_ms,
        "checkpoint.timeout": terms.timeout_ms,
        "the restart delay": terms.restart_delay_ms,
    }
    needed = sum(parts.values())
    if needed < transaction_timeout_ms:
        return []
    sums = " + ".join(f"{name} {duration_text(value)}" for name, value in parts.items())
    longest = max(parts, key=lambda name: parts[name])
    return [
        f"a transaction may have to stay open for {duration_text(needed)} ({sums}), and the brokers would abort it "
        f"after transaction_timeout {duration_text(transaction_timeout_ms)}\n"
        f"  lower {longest}, or raise transaction_timeout above {duration_text(needed)} "
        "(the brokers' transaction.max.timeout.ms, 15m by default, must allow it)"
    ]


def transaction_settings(
    name: str, transaction_timeout_ms: int, properties: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Returns (the pipeline's properties without socket and message timeouts, the client settings of a transaction).

    Without these settings the client library derives both timeouts from the transaction timeout, which would be 15
    minutes for a socket. A value of the pipeline is used unless it exceeds the transaction timeout, because the library
    rejects such values.
    """
    limits = (*_MESSAGE_TIMEOUT_NAMES, _SOCKET_TIMEOUT_NAME)
    rest = {each: value for each, value in properties.items() if each not in limits}
    socket_timeout_ms = _number(properties, (_SOCKET_TIMEOUT_NAME,), _SOCKET_TIMEOUT_MS)
    held: dict[str, Any] = {
        "transactional.id": name,
        "transaction.timeout.ms": transaction_timeout_ms,
        _MESSAGE_TIMEOUT_NAMES[0]: message_timeout_ms(properties, transaction_timeout_ms),
        _SOCKET_TIMEOUT_NAME: min(socket_timeout_ms, transaction_timeout_ms),
    }
    # a value that is not a number is rejected by the library, with its own message
    return rest, held | {each: properties[each] for each in limits if not properties.get(each, "0").isdecimal()}


def message_timeout_ms(properties: Mapping[str, str], transaction_timeout_ms: int) -> int:
    """The time limit for the delivery of a record, in ms. It is less than the transaction timeout, so that a record
    fails before its transaction expires."""
    # the library reads 0 as no limit
    wanted = _number(properties, _MESSAGE_TIMEOUT_NAMES, _MESSAGE_TIMEOUT_MS) or transaction_timeout_ms
    return wanted if wanted < transaction_timeout_ms else transaction_timeout_ms * 2 // 3


def _number(properties: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    given = [properties[name] for name in names if name in properties]
    return int(given[0]) if given and given[0].isdecimal() else default


def _broker_list(given: Any) -> Any:
    text = ",".join(str(item) for item in given) if isinstance(given, list | tuple) else str(given)
    hosts_and_ports(text)
    return ",".join(part.strip() for part in text.split(",") if part.strip())


def _topic_name(given: Any) -> Any:
    text = str(given)
    if not re.fullmatch(r"[a-zA-Z0-9._-]{1,249}", text) or text in {".", ".."}:
        raise ValueError(f"{text!r} is no topic name: letters, digits, dot, underscore and dash, at most 249")
    return text


Brokers = Annotated[
    str,
    BeforeValidator(_broker_list),
    Field(description="host:port, several separated by commas"),
    Address(),
]
Topic = Annotated[str, BeforeValidator(_topic_name)]


class KafkaMetadata(Config):
    """The names of the columns for a record's metadata: everything except its value."""

    topic: str | None = Field(default=None, description="column for the name of the record's topic (string)")
    partition: str | None = Field(default=None, description="column for the number of its partition (int32)")
    offset: str | None = Field(default=None, description="column for its offset in the partition (int64)")
    timestamp: str | None = Field(default=None, description="column for its timestamp (timestamp)")
    key: str | None = Field(default=None, description="column for its key (binary); NULL without a key")
    headers: str | None = Field(default=None, description="column for its headers (a list of name and value)")


class KafkaSourceSettings(Config):
    """The fields of a Kafka source."""

    takes_format: ClassVar[Literal["required", "optional", "no"]] = "required"
    record_time: ClassVar[bool] = True
    reads_ahead: ClassVar[bool] = True
    metadata_fields: ClassVar[tuple[str, ...]] = ("topic", "partition", "offset", "timestamp", "key", "headers")

    brokers: Brokers
    topic: Topic | None = Field(
        default=None, description="the topic that is read; exactly one of topic, topics and pattern is set"
    )
    topics: tuple[Topic, ...] | None = Field(default=None, min_length=1, description="several topics, by name")
    pattern: str | None = Field(default=None, description="regular expression that whole topic names must match")
    start: StartField = Field(
        default="earliest",
        description="where a job without state begins: a word, the first record at or after a time, or offsets by "
        "partition (with several topics, by topic and partition)",
    )
    stop: StopField = Field(
        default=None,
        description="where the source ends, before this position: latest is the end at the job's start; "
        "without it, the source has no end",
    )
    archive: str | None = Field(
        default=None,
        min_length=1,
        description="an archive of the topics, a path or URL: what Kafka no longer has is read from it",
    )
    group: str | None = Field(
        default=None,
        min_length=1,
        description="consumer group that positions are committed to after a checkpoint, for monitoring and "
        "`start: committed`; default: headrace-<pipeline>-<source>",
    )
    metadata: KafkaMetadata = Field(
        default=KafkaMetadata(),
        description="names of the columns for topic, partition, offset, timestamp, key, headers",
    )
    properties: PropertiesField

    @field_validator("pattern")
    @classmethod
    def _pattern_compiles(cls, pattern: str | None) -> str | None:
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as cause:
                raise ValueError(f"{pattern!r} is no regular expression: {cause}") from cause
        return pattern

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        given = [name for name in ("topic", "topics", "pattern") if getattr(self, name) is not None]
        if len(given) != 1:
            found = " and ".join(given) if given else "none of them"
            raise ValueError(f"give exactly one of topic, topics and pattern (found {found})")
        if self.start == "archived" and self.archive is None:
            raise ValueError("start: archived begins at the end of an archive: name the archive with archive:")
        for name in ("start", "stop"):
            self._check_offsets(name)
        if message := refused(self.properties, OWNED_BY_SOURCE):
            raise ValueError(message)
        return self

    def _check_offsets(self, name: str) -> None:
        place = getattr(self, name)
        if not isinstance(place, dict):
            return
        nested = {key: isinstance(value, dict) for key, value in place.items()}
        if self.topic is None and not all(nested.values()):
            raise ValueError(f"{name}: with several topics write {{<topic>: {{<partition>: <offset>}}}}")
        for key, is_topic in nested.items():
            known = self.fixed_topics
            if is_topic and known is not None and key not in known:
                raise ValueError(f"{name} names topic {key!r}, which the source does not read")

    @property
    def fixed_topics(self) -> tuple[str, ...] | None:
        """The topics by name; None if a pattern selects them."""
        return (self.topic,) if self.topic is not None else self.topics

    @property
    def only_topic(self) -> str | None:
        """The topic, if it is the only one."""
        return self.fixed_topics[0] if self.fixed_topics is not None and len(self.fixed_topics) == 1 else None

    @property
    def bounded(self) -> bool:
        """Whether `stop` is set."""
        return self.stop is not None

    @property
    def metadata_columns(self) -> Mapping[str, str]:
        """Metadata field -> name of its column."""
        return {name: column for name in self.metadata_fields if (column := getattr(self.metadata, name)) is not None}

    def group_id(self, context: SourceContext) -> str:
        """The consumer group that positions are published to."""
        return self.group or f"headrace-{context.pipeline}-{context.node}"

    def describe_position(self, split: SplitId, position: int) -> str:
        """`flights[2] offset 17`."""
        return f"{split} offset {position}"

    def dead_letter_sink(
        self, topic: str, *, exactly_once: bool = False, commit_within_ms: int | None = None
    ) -> tuple[str, dict[str, Any]] | None:
        """A Kafka sink on the same brokers, with the same login."""
        return _dead_letter_sink(self, topic, commit_within_ms, exactly_once=exactly_once)


class CreateTopic(Config):
    """The settings with which a missing topic of the sink is created."""

    partitions: int = Field(default=1, ge=1, description="number of partitions")
    replication: int = Field(default=1, ge=1, description="number of replicas of each partition")
    config: dict[str, str] = Field(
        default_factory=dict, description="settings of the topic by Kafka's names, such as cleanup.policy: compact"
    )

    @field_validator("config", mode="before")
    @classmethod
    def _as_texts(cls, given: Any) -> Any:
        return {str(name): str(value) for name, value in given.items()} if isinstance(given, Mapping) else given


class KafkaSinkSettings(Config):
    """The fields of a Kafka sink."""

    brokers: Brokers
    topic: Topic = Field(description="the topic that is written")
    key: tuple[str, ...] | None = Field(
        default=None,
        min_length=1,
        description="columns that make the record key: the bytes of one text or binary column, else a JSON object, "
        "in which NaN and infinities are texts",
    )
    headers: dict[str, str] = Field(default_factory=dict, description="header name to the column that fills it")
    delivery: Literal["at-least-once", "exactly-once"] = Field(
        default="at-least-once",
        description="exactly-once: records are written in a transaction, which their checkpoint commits",
    )
    mode: Literal["append", "upsert"] = Field(
        default="append",
        description="upsert: the last record of a key is its current row; a deleted row is written as a tombstone",
    )
    updates: Literal["as_rows"] | None = Field(
        default=None, description="as_rows: mode append accepts updating rows and writes each update as one more record"
    )
    timestamp: Literal["wall", "event"] = Field(
        default="wall",
        description="timestamp of a record: the time of writing, or the row's event time, which must be within the "
        "topic's message.timestamp.before.max.ms and message.timestamp.after.max.ms (1 hour ahead by default)",
    )
    transaction_timeout_ms: Annotated[Duration, Field(gt=0)] = Field(
        default=900_000,
        validation_alias="transaction_timeout",
        serialization_alias="transaction_timeout",
        description="how long a transaction may stay open; only delivery: exactly-once has transactions",
    )
    create_topic: CreateTopic | None = Field(
        default=None, description="how a missing topic is created; without it, a missing topic is an error"
    )
    properties: PropertiesField

    @field_validator("key", mode="before")
    @classmethod
    def _one_or_many(cls, given: Any) -> Any:
        return (given,) if isinstance(given, str) else given

    @model_validator(mode="after")
    def _fits_together(self) -> Self:
        if self.mode == "upsert" and self.key is None:
            raise ValueError("mode: upsert needs key: the columns that name a row")
        if self.mode == "upsert" and self.updates is not None:
            raise ValueError("updates: as_rows goes with mode: append; upsert keeps the last row per key")
        if self.key is not None and len(set(self.key)) != len(self.key):
            raise ValueError("key names a column twice")
        if self.exactly_once and not (
            TRANSACTION_TIMEOUT_MIN_MS <= self.transaction_timeout_ms <= TRANSACTION_TIMEOUT_MAX_MS
        ):
            raise ValueError("transaction_timeout is between 1s and 24d")
        if message := refused(self.properties, OWNED_BY_SINK):
            raise ValueError(message)
        return self

    @property
    def only_topic(self) -> str | None:
        """The topic."""
        return self.topic

    @property
    def refuses(self) -> Literal["never", "in_write", "in_flush"]:
        """Rows are checked before they are queued."""
        return "in_write"

    @property
    def refusals_depend_on(self) -> str | None:
        """The clock, with the rows' own times. The cleanup policy of a topic is part of its purpose."""
        return "the clock and the topic's limits of times" if self.timestamp == "event" else None

    @property
    def accepts_updates(self) -> bool:
        """Whether the sink accepts updating rows: by key, or as plain rows if configured."""
        return self.mode == "upsert" or self.updates == "as_rows"

    @property
    def accepts_deletes(self) -> bool:
        """Whether a delete can be written: as a tombstone, in upsert mode."""
        return self.mode == "upsert"

    @property
    def uses_event_time(self) -> bool:
        """Whether records carry the rows' event time as their timestamp."""
        return self.timestamp == "event"

    @property
    def key_columns(self) -> tuple[str, ...] | None:
        """Columns of the record key, in order."""
        return self.key

    @property
    def encodes_keys(self) -> bool:
        """Always true."""
        return True

    @property
    def referenced_columns(self) -> tuple[str, ...]:
        """Columns of key and headers."""
        return tuple(dict.fromkeys((*(self.key or ()), *self.headers.values())))

    def dead_letter_sink(
        self, topic: str, *, exactly_once: bool = False, commit_within_ms: int | None = None
    ) -> tuple[str, dict[str, Any]] | None:
        """A Kafka sink on the same brokers, with the same login."""
        return _dead_letter_sink(self, topic, commit_within_ms, exactly_once=exactly_once)

    @property
    def exactly_once(self) -> bool:
        """Whether rows become visible when their transaction is committed."""
        return self.delivery == "exactly-once"

    @property
    def commit_within_ms(self) -> int | None:
        """The timeout after which the brokers abort a transaction."""
        return self.transaction_timeout_ms if self.exactly_once else None

    def transactions(self, context: SinkContext) -> tuple[str, ...]:
        """The transactional ids of one writer."""
        if not self.exactly_once:
            return ()
        lanes = lanes_of(0 if context.checkpoint is None else context.checkpoint.tolerable_failures)
        return tuple(str(name) for name in names_of(context.job, context.node, context.attempt, context.subtask, lanes))

    def check(self, context: SinkContext) -> list[str]:
        """Problems with the checkpoint settings: they must commit before the brokers abort a transaction."""
        if not self.exactly_once or context.checkpoint is None:
            return []
        return unmet_terms(context.checkpoint, self.transaction_timeout_ms)

    @property
    def publishes_once(self) -> bool:
        """Always true, whatever `delivery` a live job uses."""
        return True


def _dead_letter_sink(
    beside: KafkaSourceSettings | KafkaSinkSettings, topic: str, commit_within_ms: int | None, *, exactly_once: bool
) -> tuple[str, dict[str, Any]]:
    fields: dict[str, Any] = {
        "brokers": beside.brokers,
        "topic": topic,
        "properties": connection_settings(beside.properties),
    }
    if exactly_once:
        fields["delivery"] = "exactly-once"
        if commit_within_ms is not None:
            fields["transaction_timeout"] = commit_within_ms
    return "kafka", fields
