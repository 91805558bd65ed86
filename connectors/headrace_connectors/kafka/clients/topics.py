"""Checks that topics exist, creates them, and explains missing ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from headrace.core.errors import HeadraceError, UserError, did_you_mean
from headrace.core.ids import split_output
from headrace_connectors.kafka.clients.client import (
    CONNECT_TIMEOUT_S,
    ClientWatch,
    answered,
    open_admin,
    topic_partitions,
    translated,
)
from headrace_connectors.kafka.config import CreateTopic, KafkaSinkSettings

_CREATE_TIMEOUT_S = 30.0
"""Time limit for creating a topic, which is slow with many partitions."""


def missing_topic(topic: str, brokers: str, existing: Iterable[str], *, sink: str | None = None) -> UserError:
    """The error for a missing topic: the nearest name, and how to create it. `sink`: the sink that writes to it."""
    what, create = f"topic {topic!r}", f"create it with `headrace kafka create {topic}`"
    if sink is not None and is_dead_letters(sink):
        # the sink of a node's dead letters is no sink of the file, and has no field there
        what += f" for the dead letters of {split_output(sink)[0]}"
    elif sink is not None:
        create += " or give the sink `create_topic: {partitions: 1}`"
    return UserError(f"{what} does not exist at {brokers}", remedy=_remedy([topic], create, existing))


def missing_topics(topics: Sequence[str], brokers: str, existing: Iterable[str]) -> UserError:
    """The error for all missing topics of a source, of which there is at least one."""
    if len(topics) == 1:
        return missing_topic(topics[0], brokers, existing)
    names = ", ".join(repr(topic) for topic in topics)
    create = "create them with " + " and ".join(f"`headrace kafka create {topic}`" for topic in topics)
    return UserError(f"topics {names} do not exist at {brokers}", remedy=_remedy(topics, create, existing))


def _remedy(topics: Sequence[str], create: str, existing: Iterable[str]) -> str:
    """The nearest name for each topic, then `create`, then the topics that exist."""
    names = sorted(name for name in existing if not name.startswith("__"))
    hints = [hint for topic in topics if (hint := did_you_mean(topic, names))]
    listed = (
        f"topics there: {', '.join(names[:10])}{', ..' if len(names) > 10 else ''}" if names else "it has no topics"
    )
    return " ".join([*dict.fromkeys(hints), f"{create};", listed])


def is_dead_letters(sink: str) -> bool:
    """Whether a sink is the one that `on_error: {dead_letter: ..}` implies: it has the name of a side output."""
    return split_output(sink)[1] is not None


def ensure_topic(config: KafkaSinkSettings, sink: str) -> None:
    """Checks that the topic of a sink exists, or creates it. Raises UserError or ExternalError with the remedy."""
    watch = ClientWatch(config.brokers)
    admin = open_admin(config.brokers, config.properties, watch)
    existing = topic_partitions(admin, watch)
    if config.topic in existing:
        return
    if config.create_topic is None:
        raise missing_topic(config.topic, config.brokers, existing, sink=sink)
    _create(admin, watch, config, config.create_topic)


def _create(admin: AdminClient, watch: ClientWatch, config: KafkaSinkSettings, wanted: CreateTopic) -> None:
    topic = NewTopic(
        config.topic,
        num_partitions=wanted.partitions,
        replication_factor=wanted.replication,
        config=wanted.config,
    )
    try:
        asked = admin.create_topics([topic], operation_timeout=CONNECT_TIMEOUT_S, request_timeout=_CREATE_TIMEOUT_S)
        answered(asked[config.topic], watch)
    except KafkaException as cause:
        error = cause.args[0]
        if error.code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise _refused_creation(error, config) from cause


def _refused_creation(error: KafkaError, config: KafkaSinkSettings) -> HeadraceError:
    if error.code() in {
        KafkaError.INVALID_REPLICATION_FACTOR,
        KafkaError.INVALID_CONFIG,
        KafkaError.INVALID_PARTITIONS,
        KafkaError.POLICY_VIOLATION,
    }:
        return UserError(f"topic {config.topic!r} cannot be created: {error.str()}", remedy="correct `create_topic:`")
    return translated(error, config.brokers)
