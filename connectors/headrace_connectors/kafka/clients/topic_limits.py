"""The settings of a topic by which its brokers refuse single records."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from confluent_kafka import KafkaException
from confluent_kafka.admin._config import ConfigResource

from headrace.core.errors import UnreachableError
from headrace_connectors.kafka.clients.client import CONNECT_TIMEOUT_S, LOG, ClientWatch, answered, open_admin

_NO_LIMIT_MS = 2**63 - 1


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
