"""The brokers' retention of markers of published shares (`publishing.marker`): offsets of groups without members, which
expire a fixed time after the last commit."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._config import ConfigResource

from headrace_connectors.kafka.clients.client import CONNECT_TIMEOUT_S, ClientWatch, answered, known_cluster, open_admin
from headrace_connectors.kafka.config import KafkaSinkSettings

SETTING = "offsets.retention.minutes"
USUAL_MS = 7 * 24 * 3_600_000
"""Kafka's own default."""
_MINUTE_MS = 60_000


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
