"""The progress of a share's publication: a marker that is committed in the same transactions as its rows.

The marker is the offset of a consumer group without members, `headrace-<job>-<sink>-publish-<subtask>`, on the sink's
topic, partition 0. Each share has its own group. Partition 0 always exists, and deleting the topic deletes both the
rows and the marker.

    offset     rows of the share that are visible
    metadata   {"epoch": 3, "of": 500}: the share's epoch, and its number of rows

Brokers keep the offset for `offsets.retention.minutes` after the last transaction (7 days), and transactional ids as
long. A share that is continued later finds no marker, and would be published again from its first row. So a publisher
checks the elapsed time first (`SinkConfig.remembers_ms`, by `markers_kept_ms`).
"""

from __future__ import annotations

import json

from confluent_kafka import Consumer, KafkaError, KafkaException, TopicPartition
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from headrace.connect.share_marker import ShareMarker
from headrace.connect.sink import SinkContext
from headrace.core.errors import ExternalError, HeadraceError
from headrace_connectors.kafka.clients.client import (
    CONNECT_TIMEOUT_S,
    ClientWatch,
    answered,
    bad_settings,
    base_settings,
    known_cluster,
    open_admin,
    translated,
)
from headrace_connectors.kafka.clients.committed_offsets import committed_offsets, is_transient
from headrace_connectors.kafka.clients.properties import connection_settings
from headrace_connectors.kafka.clients.transaction_names import PREFIX, job_prefix
from headrace_connectors.kafka.config import KafkaSinkSettings

_PARTITION = 0
_DENIED = frozenset({KafkaError.GROUP_AUTHORIZATION_FAILED, KafkaError.TOPIC_AUTHORIZATION_FAILED})
SETTING = "offsets.retention.minutes"
USUAL_MS = 7 * 24 * 3_600_000
"""Kafka's own default."""
_MINUTE_MS = 60_000


def share_name(context: SinkContext) -> str:
    """The transactional id of a share's publishers, and its marker's group. `transaction_names.parsed` does not
    recognise it, so committers leave it alone: the next publisher, or the brokers, end a transaction that one left
    open."""
    return f"{job_prefix(context.job)}{context.node}-publish-{context.subtask}"


class MarkerGroup:
    """The group of one share's marker: reads it, and provides the metadata with which a producer commits it."""

    def __init__(self, config: KafkaSinkSettings, context: SinkContext) -> None:
        self._config = config
        self._watch = ClientWatch(config.brokers)
        held = {
            "group.id": share_name(context),
            "enable.auto.commit": False,
            # waits for a transaction that is about to end: its marker must not be missed
            "isolation.level": "read_committed",
        }
        settings = base_settings(config.brokers, connection_settings(config.properties), self._watch)
        try:
            self._consumer = Consumer(settings | held)
        except KafkaException as cause:
            raise bad_settings(cause) from cause
        self.metadata: object = self._consumer.consumer_group_metadata()
        """For `send_offsets_to_transaction`; still usable after this group is closed."""

    def read(self, patience_s: float) -> ShareMarker | None:
        """The marker; None: there is none. Raises ExternalError if brokers do not answer within `patience_s`."""
        place = TopicPartition(self._config.topic, _PARTITION)
        try:
            (committed,) = committed_offsets(self._consumer, [place], self._watch, patience_s=patience_s)
        except KafkaException as cause:
            error = cause.args[0]
            if is_transient(error):
                raise self._not_read(error, patience_s) from cause
            raise marker_refused(error, self._config.brokers) from cause
        return self._parsed(committed)

    def _parsed(self, found: TopicPartition) -> ShareMarker | None:
        if found.offset < 0:
            return None
        try:
            fields = json.loads(found.metadata or "")
            return ShareMarker(int(fields["epoch"]), found.offset, int(fields["of"]))
        except (ValueError, KeyError, TypeError) as cause:
            raise ExternalError(
                f"the consumer group that stores how many rows of topic {self._config.topic!r} are published has an "
                f"offset that headrace did not write: {found.metadata!r}",
                remedy=f"do not use groups with the prefix {PREFIX}- for anything else",
            ) from cause

    def _not_read(self, error: KafkaError, patience_s: float) -> ExternalError:
        return ExternalError(
            f"Kafka at {self._config.brokers} did not return within {patience_s:.0f} s how many rows of topic "
            f"{self._config.topic!r} are published: {error.str()}",
            remedy="the brokers do not answer, or an earlier transaction is still open; the request is repeated",
            retry=True,
        )

    def close(self) -> None:
        """Closes the connection. Idempotent."""
        self._consumer.close()


def marked(topic: str, marker: ShareMarker) -> list[TopicPartition]:
    """The marker as offsets to commit."""
    metadata = json.dumps({"epoch": marker.epoch, "of": marker.of})
    return [TopicPartition(topic, _PARTITION, marker.rows, metadata=metadata)]


def marker_refused(error: KafkaError, brokers: str) -> HeadraceError:
    """The error for brokers that do not read or commit a marker."""
    if error.code() in _DENIED:
        return ExternalError(
            f"Kafka at {brokers} denied access: {error.str()}",
            remedy=f"publishing needs ACLs that allow this principal READ on Groups with prefix {PREFIX}- and on the "
            "topic",
        )
    return translated(error, brokers)


def markers_kept_ms(config: KafkaSinkSettings) -> int:
    """The shortest retention of all brokers; Kafka's default for brokers that do not report it (missing ACL).

    Raises UnreachableError if none answers.
    """
    watch = ClientWatch(config.brokers)
    admin = open_admin(config.brokers, config.properties, watch)
    retentions_ms = [_retention_ms(admin, watch, broker) for broker in known_cluster(admin, watch).brokers]
    return min(retentions_ms, default=USUAL_MS)


def _retention_ms(admin: AdminClient, watch: ClientWatch, broker: int) -> int:
    try:
        (future,) = admin.describe_configs(
            [ConfigResource(ConfigResource.Type.BROKER, str(broker))], request_timeout=CONNECT_TIMEOUT_S
        ).values()
        entry = answered(future, watch).get(SETTING)
    except KafkaException:
        return USUAL_MS
    return USUAL_MS if entry is None or entry.value is None else int(entry.value) * _MINUTE_MS
