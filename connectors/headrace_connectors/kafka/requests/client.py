"""Raw requests about transactions and topic ids to the brokers of a cluster.

Owns connections: the broker for each request, and concurrent requests to several brokers. Makes no decisions and no
retries. A request without a response has code 13 (disconnected), whatever the cause. The caller then closes this client
and opens another one, which bootstraps again and so finds brokers that restarted or moved.

No thread: connections are read in the caller's thread. All connections of a client share the login: a TLS context, an
access token, and a SASL mechanism for each connection.
"""

from __future__ import annotations

import importlib
import random
import socket
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from confluent_kafka import KafkaError

from headrace.core.errors import ExternalError, UserError
from headrace_connectors.kafka.clients.access_tokens import AccessTokens
from headrace_connectors.kafka.clients.broker_list import hosts_and_ports
from headrace_connectors.kafka.clients.client_security import ClientSecurity, require_installed, tls_context
from headrace_connectors.kafka.requests.connection import (
    BrokerConnection,
    ConnectionBrokenError,
    ConnectionSettings,
    VersionUnknownError,
)
from headrace_connectors.kafka.requests.requests import (
    BrokerPlace,
    Coordinator,
    EndCall,
    RawDescription,
    Request,
    TopicLog,
    broker_setting,
    describe_transactions,
    end_transaction,
    find_coordinators,
    init_producer_id,
    list_transactions,
    metadata,
    topic_log,
)
from headrace_connectors.kafka.requests.sasl import Gssapi, LoginRefusedError, OAuthBearer, Plain, SaslMechanism, Scram

NETWORK_EXCEPTION = 13
"""Kafka's own code for a disconnect before the answer."""
_UNDER_WAY_MAX = 256
"""Most requests in flight: their answers fit into the socket buffers, so no sender blocks."""
_CONNECT_S = 3.0
_NAMES = {105: "TRANSACTIONAL_ID_NOT_FOUND"}
"""Names of codes that librdkafka does not know."""

A = TypeVar("A")
_CANONICAL = "resolve_canonical_bootstrap_servers_only"


def error_name(code: int) -> str:
    """`INVALID_TXN_STATE (48)`."""
    return f"{_NAMES.get(code) or KafkaError(code).name()} ({code})"


class BrokerClient:
    """Connections to the brokers of a cluster. Used by one thread. Must not be used after `broken` is set.

    Raises ExternalError if the login is rejected or no broker answers in time, UserError for brokers before 3.0.
    """

    def __init__(self, brokers: str, settings: ConnectionSettings, *, answer_timeout_ms: int) -> None:
        self._brokers = brokers
        self._settings = settings
        self._answer_timeout_s = answer_timeout_ms / 1_000
        self.broken = False
        self._last_failure = ""
        self._places: dict[int, BrokerPlace] = {}
        self._connections: dict[int | None, BrokerConnection] = {}
        try:
            self._bootstrap()
        except BaseException:
            self.close()
            raise

    def _bootstrap(self) -> None:
        """Connects to one answering address; that connection serves requests to any broker."""
        addresses = hosts_and_ports(self._brokers)
        # shuffled, so that a frozen broker, which accepts and never answers, is not always tried first
        random.shuffle(addresses)
        for host, port in addresses:
            try:
                self._connections[None] = self._opened(canonical_name(host) if self._settings.canonical else host, port)
            except ConnectionBrokenError as error:
                self._last_failure = str(error)
                continue
            if self._know_brokers():
                # an earlier address may have failed
                self.broken = False
                return
            self._connections.pop(None).close()
        raise self._no_answer()

    def brokers(self) -> tuple[int, ...]:
        """The current brokers of the cluster. Raises ExternalError with `retry` without an answer."""
        if not self._know_brokers():
            raise self._no_answer()
        return tuple(self._places)

    def _know_brokers(self) -> bool:
        """Fetches the brokers; False: no answer."""
        (places,) = self._exchanged([(None, metadata())])
        if places is None:
            return False
        self._places = {place.broker: place for place in places}
        return True

    def logs_of(self, topics: Sequence[str]) -> dict[str, TopicLog]:
        """Metadata of each topic, pipelined, from any broker."""
        answers = self._answers([(None, topic_log(topic)) for topic in topics])
        return {
            topic: TopicLog(NETWORK_EXCEPTION) if answer is None else answer
            for topic, answer in zip(topics, answers, strict=True)
        }

    def find(self, names: Sequence[str]) -> dict[str, Coordinator]:
        """FindCoordinator: one request for all names."""
        (places,) = self._answers([(None, find_coordinators(names))])
        if places is None:
            return {name: Coordinator(NETWORK_EXCEPTION) for name in names}
        self._places |= {each.place.broker: each.place for each in places if each.coordinator.code == 0}
        return {each.name: each.coordinator for each in places}

    def describe(self, by_broker: Mapping[int, Sequence[str]]) -> dict[str, RawDescription]:
        """DescribeTransactions: one request per broker."""
        calls = [(broker, describe_transactions(names)) for broker, names in by_broker.items()]
        descriptions: dict[str, RawDescription] = {}
        for names, answer in zip(by_broker.values(), self._answers(calls), strict=True):
            descriptions |= dict.fromkeys(names, RawDescription(NETWORK_EXCEPTION)) if answer is None else answer
        return descriptions

    def end(self, by_broker: Mapping[int, Sequence[EndCall]]) -> dict[str, int]:
        """EndTxn for each, pipelined: name -> error code."""
        calls = [(broker, call) for broker, group in by_broker.items() for call in group]
        answers = self._answers([(broker, end_transaction(call)) for broker, call in calls])
        return {call.name: _code(answer) for (_, call), answer in zip(calls, answers, strict=True)}

    def init_producer_ids(self, by_broker: Mapping[int, Sequence[str]], *, timeout_ms: int) -> dict[str, int]:
        """InitProducerId for each, pipelined: name -> error code. Aborts open transactions and raises the epochs."""
        calls = [(broker, name) for broker, names in by_broker.items() for name in names]
        answers = self._answers([(broker, init_producer_id(name, timeout_ms=timeout_ms)) for broker, name in calls])
        return {name: _code(answer) for (_, name), answer in zip(calls, answers, strict=True)}

    def listed(
        self, brokers: Sequence[int], *, states: Sequence[str], pattern: str
    ) -> dict[int, tuple[int, dict[str, str]]]:
        """ListTransactions: broker -> (error code, name -> state). Brokers before 4.1 ignore `pattern`."""
        answers = self._answers([(broker, list_transactions(states, pattern)) for broker in brokers])
        return {
            broker: (NETWORK_EXCEPTION, {}) if answer is None else answer
            for broker, answer in zip(brokers, answers, strict=True)
        }

    def broker_setting(self, brokers: Sequence[int], name: str) -> dict[int, tuple[int, str | None]]:
        """DescribeConfigs, to each broker about itself: broker -> (error code, value)."""
        answers = self._answers([(broker, broker_setting(broker, name)) for broker in brokers])
        return {
            broker: (NETWORK_EXCEPTION, None) if answer is None else answer
            for broker, answer in zip(brokers, answers, strict=True)
        }

    def last_failure(self) -> str:
        """The reason of the last failed connection; empty: none failed."""
        return self._last_failure

    def close(self) -> None:
        """Closes all connections. Idempotent."""
        for connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _answers(self, calls: Sequence[tuple[int | None, Request[A]]]) -> list[A | None]:
        """The answers, None for a missing one. Raises for a rejected login or an unsupported version."""
        answers: list[A | None] = []
        for at in range(0, len(calls), _UNDER_WAY_MAX):
            answers += self._exchanged(calls[at : at + _UNDER_WAY_MAX])
        return answers

    def _exchanged(self, calls: Sequence[tuple[int | None, Request[A]]]) -> list[A | None]:
        """Sends all requests, then receives all answers."""
        deadline = time.monotonic() + self._answer_timeout_s
        # broken until all are received: an error in between leaves answers in flight that no request would match
        was_broken, self.broken = self.broken, True
        # a failed connection answers no request of this round
        failed: set[int | None] = set()
        for broker, request in calls:
            if broker not in failed:
                try:
                    self._connection(broker).send(request, deadline)
                except ConnectionBrokenError as error:
                    self._last_failure = str(error)
                    failed.add(broker)
                except VersionUnknownError as error:
                    raise self._too_old(error) from error
        answers: list[A | None] = []
        for broker, request in calls:
            answer = None
            if broker not in failed:
                try:
                    answer = self._connections[broker].receive(request, deadline)
                except ConnectionBrokenError as error:
                    self._last_failure = str(error)
                    failed.add(broker)
            answers.append(answer)
        self.broken = was_broken or None in answers
        return answers

    def _connection(self, broker: int | None) -> BrokerConnection:
        """A connection to the broker (None: to any); a new one if its login has expired, or the broker has closed
        it."""
        known = self._connections.get(broker)
        if known is not None:
            if known.usable:
                return known
            known.close()
        places = [place for number, place in self._places.items() if broker in (None, number)]
        failure = ConnectionBrokenError(f"broker {broker} is not known")
        for place in places:
            try:
                opened = self._connections[broker] = self._opened(place.host, place.port)
            except ConnectionBrokenError as error:
                failure = error
            else:
                return opened
        raise failure

    def _opened(self, host: str, port: int) -> BrokerConnection:
        """A connection, logged in. Raises ConnectionBrokenError, ExternalError for a rejected login."""
        for last in (False, True):
            try:
                return BrokerConnection(host, port, self._settings, deadline=time.monotonic() + _CONNECT_S)
            except LoginRefusedError as error:
                # a token may have been revoked, or may have expired in transit: another one is tried once
                if last or not self._settings.forget_login():
                    raise ExternalError(
                        f"Kafka at {self._brokers} refused the login: {error}",
                        remedy="check security.protocol, sasl.mechanism and the credentials under `properties:`",
                    ) from error
        raise AssertionError("the second try returns or raises")

    def _no_answer(self) -> ExternalError:
        return ExternalError(f"no Kafka broker answers at {self._brokers}: {self._last_failure}", retry=True)

    def _too_old(self, error: VersionUnknownError) -> UserError:
        return UserError(
            f"Kafka at {self._brokers} does not have the requests that delivery: exactly-once needs: {error}",
            remedy="it needs brokers of version 3.0 or later; write delivery: at-least-once",
        )


def _code(answer: int | None) -> int:
    return NETWORK_EXCEPTION if answer is None else answer


def canonical_name(host: str) -> str:
    """The host name that Kerberos uses; the same name if there is no other."""
    try:
        return socket.gethostbyaddr(host)[0]
    except OSError:
        return host


def connection_settings_of(security: ClientSecurity) -> ConnectionSettings:
    """The settings for all connections of one client, which share an access token. Raises UserError for invalid TLS
    files and for a missing package."""
    require_installed(security)
    tokens = AccessTokens(security.tokens) if security.tokens is not None else None
    return ConnectionSettings(
        client_id=security.client_id,
        tls=None if security.tls is None else tls_context(security.tls),
        login=None if security.mechanism is None else _login(security, tokens),
        forget_login=lambda: _forgotten(tokens),
        canonical=security.dns_lookup == _CANONICAL,
    )


def _login(security: ClientSecurity, tokens: AccessTokens | None) -> Callable[[str], SaslMechanism]:
    username, password = security.username or "", security.password or ""
    match security.mechanism:
        case "PLAIN":
            return lambda _host: Plain(username, password)
        case "SCRAM-SHA-256" | "SCRAM-SHA-512" as name:
            return lambda _host: Scram(name, username, password)
        case "GSSAPI":
            return lambda host: Gssapi(importlib.import_module("gssapi"), security.kerberos_service, host)
        case "OAUTHBEARER":
            assert tokens is not None, "client_security returns token settings with this mechanism"
            return lambda _host: OAuthBearer(tokens.token(), tokens.extensions)
        case other:
            raise AssertionError(f"client_security rejects mechanism {other!r}")


def _forgotten(tokens: AccessTokens | None) -> bool:
    if tokens is None:
        return False
    tokens.forget()
    return True
