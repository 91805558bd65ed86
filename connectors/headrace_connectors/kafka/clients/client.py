"""Shared by every Kafka client of headrace: base settings, error callbacks, and the translation of client errors.

Knows nothing of sources or sinks.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from confluent_kafka import KafkaError, KafkaException
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._metadata import ClusterMetadata

from headrace.core.errors import ExternalError, HeadraceError, UnreachableError, UserError
from headrace_connectors.kafka.clients.properties import connection_settings
from headrace_connectors.kafka.clients.transaction_names import PREFIX

CONNECT_TIMEOUT_S = 8.0
"""Time limit of the brokers' first answer, after which they count as unreachable."""

LOST_ANSWER_S = 40.0
"""Time limit of any response: the client may lose a request to a broker that went away, and never respond."""

_Answer = TypeVar("_Answer")
LOG = logging.getLogger("headrace.kafka")
# without a handler, logging prints to stderr: a broker restart would flood the terminal
LOG.addHandler(logging.NullHandler())

_AUTH_CODES = frozenset(
    {
        KafkaError._AUTHENTICATION,
        KafkaError.SASL_AUTHENTICATION_FAILED,
        KafkaError.UNSUPPORTED_SASL_MECHANISM,
        KafkaError.ILLEGAL_SASL_STATE,
    }
)
_DENIED_CODES = frozenset(
    {
        KafkaError.TOPIC_AUTHORIZATION_FAILED,
        KafkaError.GROUP_AUTHORIZATION_FAILED,
        KafkaError.CLUSTER_AUTHORIZATION_FAILED,
    }
)
_FENCED_CODES = frozenset(
    {
        KafkaError._FENCED,
        KafkaError.PRODUCER_FENCED,
        KafkaError.INVALID_PRODUCER_EPOCH,
        KafkaError.INVALID_PRODUCER_ID_MAPPING,
        KafkaError.INVALID_TXN_STATE,
    }
)
UNKNOWN_TOPIC_CODES = frozenset(
    {KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError._UNKNOWN_TOPIC, KafkaError._UNKNOWN_PARTITION}
)


class ClientWatch:
    """Receives a client's error callbacks: keeps the reason why it cannot connect, and its unrecoverable errors."""

    def __init__(self, brokers: str) -> None:
        self._brokers = brokers
        self._last = ""
        self._hopeless: KafkaError | None = None

    def on_error(self, error: KafkaError) -> None:
        """The client's `error_cb`."""
        if error.fatal() or error.code() in _AUTH_CODES:
            self._hopeless = error
        elif error.code() != KafkaError._ALL_BROKERS_DOWN:
            self._last = error.str()

    def raise_if_hopeless(self) -> None:
        """Raises the translated error if the client has reported one that waiting does not resolve."""
        if self._hopeless is not None:
            raise translated(self._hopeless, self._brokers)

    def unreachable(self) -> UnreachableError:
        """The error for brokers that did not answer in time."""
        detail = f": {self._last}" if self._last else ""
        return UnreachableError(
            f"no Kafka broker answers at {self._brokers}{detail}",
            remedy="start it (`headrace kafka up` starts one here) or correct `brokers:`",
        )


def translated(error: KafkaError, brokers: str) -> HeadraceError:
    """A client error as an error of headrace, with its remedy."""
    code = error.code()
    if code == KafkaError.INVALID_TRANSACTION_TIMEOUT:
        return UserError(
            f"the brokers at {brokers} allow no transaction as long as transaction_timeout",
            remedy="lower the sink's transaction_timeout, or raise the brokers' transaction.max.timeout.ms",
        )
    if code == KafkaError.TRANSACTIONAL_ID_AUTHORIZATION_FAILED:
        return UserError(
            f"Kafka at {brokers} denied the transaction: {error.str()}",
            remedy="delivery: exactly-once needs an ACL that allows this principal WRITE on the TransactionalIds with "
            f"prefix {PREFIX}-",
        )
    if code in _AUTH_CODES:
        remedy = "check security.protocol, sasl.mechanism and the credentials under `properties:`"
        return ExternalError(f"Kafka at {brokers} refused the login: {error.str()}", remedy=remedy)
    if code in _DENIED_CODES:
        remedy = "ask for an ACL that allows this principal to do it"
        return ExternalError(f"Kafka at {brokers} denied access: {error.str()}", remedy=remedy)
    if code in _FENCED_CODES:
        remedy = (
            "nothing of it becomes visible: a newer attempt of this job has taken over, or the transaction was open "
            "for longer than transaction_timeout"
        )
        return ExternalError(f"Kafka at {brokers} ended the transaction: {error.str()}", remedy=remedy, retry=True)
    again = error.retriable() or error.fatal()
    return ExternalError(f"Kafka at {brokers}: {error.str()} ({error.name()})", retry=again)


def base_settings(brokers: str, properties: Mapping[str, str], watch: ClientWatch) -> dict[str, Any]:
    """Settings of any client; the pipeline's own settings come last."""
    return {
        "bootstrap.servers": brokers,
        "client.id": "headrace",
        "error_cb": watch.on_error,
        "logger": LOG,
        # a restarted broker is reached within 2 s; librdkafka's back-off would grow to 10 s
        "reconnect.backoff.max.ms": 2_000,
        **properties,
    }


def open_admin(brokers: str, properties: Mapping[str, str], watch: ClientWatch) -> AdminClient:
    """An admin client with the pipeline's connection settings. Raises UserError for settings that are not valid."""
    try:
        return AdminClient(base_settings(brokers, connection_settings(properties), watch))
    except KafkaException as cause:
        raise bad_settings(cause) from cause


def bad_settings(cause: KafkaException) -> UserError:
    """The error for settings that librdkafka rejects."""
    error = cause.args[0]
    text = error.str() if isinstance(error, KafkaError) else str(error)
    return UserError(f"Kafka client settings are not valid: {text}", remedy="correct `properties:`")


def answered(future: Future[_Answer], watch: ClientWatch) -> _Answer:
    """An admin client's answer. Raises its KafkaException, and UnreachableError if the client never answers."""
    try:
        return future.result(timeout=LOST_ANSWER_S)
    except TimeoutError as cause:
        raise watch.unreachable() from cause


def known_cluster(admin: AdminClient, watch: ClientWatch, *, timeout_s: float = CONNECT_TIMEOUT_S) -> ClusterMetadata:
    """Visible brokers and topics. Raises ExternalError if no broker answers in time."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return admin.list_topics(timeout=1.0)
        except KafkaException as cause:
            admin.poll(0)
            watch.raise_if_hopeless()
            if time.monotonic() >= deadline:
                raise watch.unreachable() from cause


def topic_partitions(
    admin: AdminClient, watch: ClientWatch, *, timeout_s: float = CONNECT_TIMEOUT_S
) -> dict[str, tuple[int, ...]]:
    """All visible topics, with their partitions. Raises ExternalError if no broker answers in time."""
    listing = known_cluster(admin, watch, timeout_s=timeout_s)
    return {
        name: tuple(sorted(topic.partitions))
        for name, topic in listing.topics.items()
        if topic.error is None or topic.error.code() not in UNKNOWN_TOPIC_CODES
    }
