"""The identity of topics: cluster id and topic id, which distinguish a log from another one of the same name.

Kafka has topic ids since 2.8. Where a broker names none, a topic has no identity, and is not checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Future
from typing import Any

from confluent_kafka import KafkaError, KafkaException, TopicCollection
from confluent_kafka.admin import AdminClient

from headrace.connect.source import Split
from headrace_connectors.kafka.clients.client import UNKNOWN_TOPIC_CODES, ClientWatch, answered, translated

ANSWER_S = 5.0
"""Time limit of one request for identities, in s."""

_UNTOLD = UNKNOWN_TOPIC_CODES | frozenset(
    {KafkaError.TOPIC_AUTHORIZATION_FAILED, KafkaError.CLUSTER_AUTHORIZATION_FAILED, KafkaError._UNSUPPORTED_FEATURE}
)
"""Errors after which a topic has no identity: it does not exist, may not be described, or the broker is too old."""


class IdentityRequest:
    """One request for the identities of topics. The client sends it in a thread of its own."""

    def __init__(self, admin: AdminClient, topics: Iterable[str], *, timeout_s: float = ANSWER_S) -> None:
        self._cluster: Future[Any] = admin.describe_cluster(request_timeout=timeout_s)
        described = admin.describe_topics(TopicCollection(sorted(set(topics))), request_timeout=timeout_s)
        self._topics: Mapping[str, Future[Any]] = described

    def done(self) -> bool:
        """Whether every answer is there."""
        return self._cluster.done() and all(each.done() for each in self._topics.values())

    def identities(self, watch: ClientWatch) -> dict[str, str]:
        """Waits for the answers. Returns topic -> identity, without topics that have none. Raises KafkaException, and
        UnreachableError if the client never answers."""
        cluster = _answer(self._cluster, watch)
        found: dict[str, str] = {}
        for topic, future in self._topics.items():
            described = _answer(future, watch)
            identity = "" if described is None or cluster is None else _identity(cluster.cluster_id, described.topic_id)
            if identity:
                found[topic] = identity
        return found


def identities_of(admin: AdminClient, watch: ClientWatch, topics: Iterable[str], brokers: str) -> dict[str, str]:
    """Topic -> identity, without topics that have none. Raises ExternalError."""
    asked = list(topics)
    if not asked:
        return {}
    try:
        return IdentityRequest(admin, asked).identities(watch)
    except KafkaException as cause:
        if cause.args[0].code() != KafkaError._TIMED_OUT:
            raise translated(cause.args[0], brokers) from cause
    # librdkafka asks the controller alone, and waits for the one that it knew last, also if that is down
    try:
        admin.list_topics(asked[0], timeout=ANSWER_S)
        return IdentityRequest(admin, asked).identities(watch)
    except KafkaException as cause:
        raise translated(cause.args[0], brokers) from cause


def replaced_topics(known: Sequence[Split], now: Mapping[str, str], brokers: str) -> dict[str, str]:
    """Topic -> what stands in its place, for topics of `known` whose log is another one in `now`."""
    return {
        split.id.topic: _difference(split.identity, identity, brokers)
        for split in known
        if split.identity and (identity := now.get(split.id.topic, "")) and identity != split.identity
    }


def _difference(before: str, now: str, brokers: str) -> str:
    (old_cluster, _, old_topic), (cluster, _, topic) = before.partition("/"), now.partition("/")
    if old_cluster != cluster:
        return f"{brokers} is cluster {cluster} now, and was {old_cluster}"
    return f"it was deleted and made anew (topic id {topic}, before {old_topic})"


def _identity(cluster: str | None, topic: Any) -> str:
    # a broker without topic ids answers with a zero
    told = topic is not None and (topic.get_most_significant_bits() or topic.get_least_significant_bits())
    return f"{cluster}/{topic}" if told and cluster else ""


def _answer(future: Future[Any], watch: ClientWatch) -> Any:
    try:
        return answered(future, watch)
    except KafkaException as cause:
        if cause.args[0].code() in _UNTOLD:
            return None
        raise
