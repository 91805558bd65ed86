"""Raw requests about transactions to the brokers of a cluster, on kafka-python's protocol classes and connections.

The one module that touches kafka-python: what goes in and comes out here is typed, errors are Kafka's error codes. It
decides nothing and repeats nothing. A request that was not answered has code 13 (the connection broke), whatever broke;
after that the caller closes this and opens another one, which asks the addresses of the start anew. That is how brokers
that go, come back or move are followed.

No thread: kafka-python's loop runs in the caller's for as long as a call takes.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kafka.errors import (
    AuthorizationError,
    IncompatibleBrokerVersion,
    KafkaConfigurationError,
    KafkaConnectionError,
    KafkaError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
    for_code,
)
from kafka.future import Future
from kafka.net.inet import KafkaNetSocket, create_connection
from kafka.net.manager import KafkaConnectionManager
from kafka.net.selector import NetworkSelector
from kafka.net.transport import KafkaSSLTransport, KafkaTCPTransport
from kafka.protocol.admin.configs import DescribeConfigsRequest
from kafka.protocol.admin.transactions import DescribeTransactionsRequest, ListTransactionsRequest
from kafka.protocol.metadata import CoordinatorType, FindCoordinatorRequest
from kafka.protocol.producer.transaction import EndTxnRequest, InitProducerIdRequest

from headrace.core.errors import ExternalError, UserError
from headrace_connectors.kafka.transaction_protocol import TransactionProtocol

NETWORK_EXCEPTION = 13
"""Kafka's own code for: disconnected before an answer came."""
_UNDER_WAY_MAX = 256
"""Requests to one broker that wait for their answers at a time."""
_BOOTSTRAP_MS = 3_000
_ANSWER_BYTES_MAX = 100_000_000
_BROKER = 4
"""The resource type of a broker's settings."""
_OLD_FIND = 3
"""Up to this version, FindCoordinator asks for one name at a time."""
_QUIET = ("kafka.net", "kafka.cluster", "kafka.protocol", "kafka.conn")


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The broker that a transaction's state is with; `code` other than 0: it is not known."""

    code: int
    broker: int = -1


@dataclass(frozen=True, slots=True)
class RawDescription:
    """DescribeTransactions' answer for one id. `started_at_ms`: -1 where nothing was begun."""

    code: int
    state: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    started_at_ms: int = -1
    timeout_ms: int = 0
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndCall:
    """One EndTxn. `protocol`: the one that the transaction was written with."""

    name: str
    producer_id: int
    producer_epoch: int
    committed: bool
    protocol: TransactionProtocol = TransactionProtocol.TV1


END_VERSIONS: Mapping[TransactionProtocol, tuple[int, int]] = {TransactionProtocol.TV1: (1, 4)}
"""The lowest and highest version of EndTxn that each protocol has. In TV1 the epoch stays, so that a second EndTxn
changes nothing."""


def error_name(code: int) -> str:
    """`INVALID_TXN_STATE (48)`."""
    return f"{getattr(for_code(code), 'message', 'UNKNOWN')} ({code})"


class BrokerClient:
    """Connections to the brokers of a cluster. Used by one thread. Not to be used again once `broken` is set.

    Raises ExternalError where the login is refused or no broker answers in time, UserError for brokers before 3.0.
    """

    def __init__(self, brokers: str, settings: Mapping[str, object], *, answer_timeout_ms: int) -> None:
        _silence()
        self._brokers = brokers
        self.broken = False
        self._net = NetworkSelector()
        try:
            self._manager = _Manager(
                self._net,
                **{
                    "bootstrap_servers": brokers.split(","),
                    "request_timeout_ms": answer_timeout_ms,
                    "socket_connection_setup_timeout_ms": _BOOTSTRAP_MS,
                    "reconnect_backoff_max_ms": 500,
                    "max_in_flight_requests_per_connection": _UNDER_WAY_MAX + 1,
                    "receive_message_max_bytes": _ANSWER_BYTES_MAX,
                    **settings,
                },
            )
            self._manager.bootstrap(_BOOTSTRAP_MS)
        except Exception as cause:
            last = self._manager.last_failure if hasattr(self, "_manager") else None
            self.close()
            raise _translated(last or cause, brokers) from cause

    def brokers(self) -> tuple[int, ...]:
        """The brokers that the cluster has now. Raises ExternalError with `retry` where none says so."""
        try:
            self._net.run(self._manager.cluster.refresh_metadata)
        except Exception as cause:
            self.broken = True
            raise _translated(cause, self._brokers) from cause
        return tuple(broker.node_id for broker in self._manager.cluster.brokers())

    def find(self, names: Sequence[str]) -> dict[str, Coordinator]:
        """FindCoordinator: one request for all names, where the brokers are not older than 3.0."""
        if self._manager.broker_version_data.api_version(FindCoordinatorRequest) <= _OLD_FIND:
            raise UserError(
                f"Kafka at {self._brokers} is too old for delivery: exactly-once",
                remedy="it needs brokers of version 3.0 or later; write delivery: at-least-once",
            )
        request = FindCoordinatorRequest(
            key_type=CoordinatorType.TRANSACTION.value, coordinator_keys=list(names), min_version=_OLD_FIND + 1
        )
        answer: Any
        (answer,) = self._answers([(None, request)])
        if answer is None:
            return {name: Coordinator(NETWORK_EXCEPTION) for name in names}
        return {row.key: Coordinator(row.error_code, row.node_id) for row in answer.coordinators}

    def describe(self, by_broker: Mapping[int, Sequence[str]]) -> dict[str, RawDescription]:
        """DescribeTransactions: one request a broker."""
        calls = [
            (node, DescribeTransactionsRequest(transactional_ids=list(names))) for node, names in by_broker.items()
        ]
        found: dict[str, RawDescription] = {}
        for names, answer in zip(by_broker.values(), self._answers(calls), strict=True):
            if answer is None:
                found |= {name: RawDescription(NETWORK_EXCEPTION) for name in names}
            else:
                found |= {row.transactional_id: _description(row) for row in answer.transaction_states}
        return found

    def end(self, by_broker: Mapping[int, Sequence[EndCall]]) -> dict[str, int]:
        """EndTxn for each, pipelined: name -> error code."""
        calls = [(broker, _end_request(call)) for broker, group in by_broker.items() for call in group]
        return self._codes(calls)

    def init_producer_ids(self, by_broker: Mapping[int, Sequence[str]], *, timeout_ms: int) -> dict[str, int]:
        """InitProducerId for each, pipelined: name -> error code. Aborts what is open and raises the epoch."""
        calls = [
            (
                broker,
                InitProducerIdRequest(
                    transactional_id=name,
                    transaction_timeout_ms=timeout_ms,
                    producer_id=-1,
                    producer_epoch=-1,
                    max_version=4,
                ),
            )
            for broker, names in by_broker.items()
            for name in names
        ]
        return self._codes(calls)

    def listed(
        self, brokers: Sequence[int], *, states: Sequence[str], pattern: str
    ) -> dict[int, tuple[int, dict[str, str]]]:
        """ListTransactions: broker -> (error code, name -> state). Brokers before 4.1 do not look at `pattern`."""
        calls = [
            (node, ListTransactionsRequest(state_filters=list(states), transactional_id_pattern=pattern))
            for node in brokers
        ]
        found: dict[int, tuple[int, dict[str, str]]] = {}
        for node, answer in zip(brokers, self._answers(calls), strict=True):
            if answer is None:
                found[node] = (NETWORK_EXCEPTION, {})
            else:
                rows = {row.transactional_id: row.transaction_state for row in answer.transaction_states}
                found[node] = (answer.error_code, rows)
        return found

    def broker_setting(self, brokers: Sequence[int], name: str) -> dict[int, tuple[int, str | None]]:
        """DescribeConfigs, asked of each broker for itself: broker -> (error code, value)."""
        resource = DescribeConfigsRequest.DescribeConfigsResource
        calls = [
            (
                node,
                DescribeConfigsRequest(
                    resources=[resource(resource_type=_BROKER, resource_name=str(node), configuration_keys=[name])]
                ),
            )
            for node in brokers
        ]
        found: dict[int, tuple[int, str | None]] = {}
        for node, answer in zip(brokers, self._answers(calls), strict=True):
            row = answer.results[0] if answer is not None and answer.results else None
            value = next((each.value for each in row.configs if each.name == name), None) if row is not None else None
            found[node] = (NETWORK_EXCEPTION if row is None else row.error_code, value)
        return found

    def last_failure(self) -> str:
        """Why a connection broke or was not made, the last time; empty: none did."""
        failure = self._manager.last_failure
        return "" if failure is None else str(failure)

    def close(self) -> None:
        """Ends all connections. Idempotent."""
        if hasattr(self, "_manager"):
            self._manager.close()
        self._net.close()

    def _codes(self, calls: Sequence[tuple[int, Any]]) -> dict[str, int]:
        return {
            request.transactional_id: NETWORK_EXCEPTION if answer is None else int(answer.error_code)
            for (_, request), answer in zip(calls, self._answers(calls), strict=True)
        }

    def _answers(self, calls: Sequence[tuple[int | None, Any]]) -> list[Any]:
        """The answers, None where there was none. Raises where the login or the version is what is wrong."""
        answers: list[Any] = []
        for at in range(0, len(calls), _UNDER_WAY_MAX):
            answers += self._net.run(self._sent, calls[at : at + _UNDER_WAY_MAX])
        if any(isinstance(each, Exception) for each in answers):
            self.broken = True
            if isinstance(self._manager.last_failure, _HOPELESS):
                raise _translated(self._manager.last_failure, self._brokers)
        return [None if isinstance(each, Exception) else each for each in answers]

    async def _sent(self, calls: Iterable[tuple[int | None, Any]]) -> list[Any]:
        """Sends all, then waits for all; what failed stands in place of its answer."""
        waiting = [self._send(request, broker) for broker, request in calls]
        answers: list[Any] = []
        for each in waiting:
            try:
                answers.append(await each)
            except Exception as error:  # whatever broke the connection comes here as it was: sockets, TLS, SASL
                self._manager.remember(error)
                answers.append(error)
        return answers

    def _send(self, request: Any, broker: int | None) -> Any:
        try:
            return self._manager.send(request, node_id=broker)
        except KafkaError as error:  # a broker that it does not know, a login that was refused before
            return Future().failure(error)


class _ClosingSocket(KafkaNetSocket):  # type: ignore[misc]  # untyped
    """Closes a socket that did not connect: kafka-python leaves that to the garbage collection."""

    SCHEMES = ("headrace",)

    async def sock_connect(self, net: Any, sock: Any, sockaddr: Any, timeout_at: float | None = None) -> Any:
        """As its parent's."""
        try:
            return await super().sock_connect(net, sock, sockaddr, timeout_at=timeout_at)
        except BaseException:
            sock.close()
            raise


class _Ending:
    """What a broker said just before it hung up is heard: why it refused a login. kafka-python throws it away.

    And a connection that is closed is closed at once: kafka-python first sends what it still has to say, such as a
    request for metadata after another connection broke. Once its loop runs no more, nobody does, and the socket stays.
    """

    def close(self) -> None:
        """Ends it."""
        self.abort()  # type: ignore[attr-defined]

    def _sock_recv(self) -> tuple[bytes, Exception | None]:
        received, error = super()._sock_recv()  # type: ignore[misc]
        # the end comes again with the next read
        return received, None if received else error


class _PlainTransport(_Ending, KafkaTCPTransport):  # type: ignore[misc]  # untyped
    pass


class _TlsTransport(_Ending, KafkaSSLTransport):  # type: ignore[misc]  # untyped
    pass


class _Manager(KafkaConnectionManager):  # type: ignore[misc]  # untyped
    """Remembers why connections failed: kafka-python only logs it. Not used again after a failure."""

    last_failure: Exception | None = None

    def get_connection(self, node_id: Any, *args: Any, **options: Any) -> Any:
        """As its parent's."""
        known = node_id in self._conns
        connection = super().get_connection(node_id, *args, **options)
        if not known:
            connection.init_future.add_errback(self.remember)
        return connection

    def remember(self, failure: Exception) -> None:
        """Keeps a refused login: the broken connections after it say less."""
        if not isinstance(self.last_failure, _HOPELESS):
            self.last_failure = failure

    async def _build_transport(self, node: Any, timeout_at: float | None = None) -> Any:
        """As its parent's, but a handshake that fails is closed, and one that is not answered ends in time."""
        options = self.config["socket_options"]
        sock = await create_connection(
            self._net, node.host, node.port, options, proxy_url="headrace:", timeout_at=timeout_at
        )
        if not self.ssl_enabled:
            return _PlainTransport(self._net, sock, host=node.host)
        transport = _TlsTransport(self._net, sock, host=node.host, ssl_context=self.config["ssl_context"])
        try:
            await _shake_hands(self._net, transport._sock, timeout_at)
        except BaseException as failure:
            transport.abort(failure)
            if isinstance(failure, Exception):
                raise KafkaConnectionError(f"no TLS with {node.host}:{node.port}: {failure}") from failure
            raise
        return transport


async def _shake_hands(net: Any, sock: ssl.SSLSocket, timeout_at: float | None) -> None:
    while True:
        try:
            sock.do_handshake()
        except ssl.SSLWantReadError:
            await net.wait_read(sock, timeout_at=timeout_at)
        except ssl.SSLWantWriteError:
            await net.wait_write(sock, timeout_at=timeout_at)
        else:
            return


_HOPELESS = (
    AuthorizationError,
    IncompatibleBrokerVersion,
    KafkaConfigurationError,
    SaslAuthenticationFailedError,
    UnsupportedSaslMechanismError,
)


def _end_request(call: EndCall) -> Any:
    lowest, highest = END_VERSIONS[call.protocol]
    return EndTxnRequest(
        transactional_id=call.name,
        producer_id=call.producer_id,
        producer_epoch=call.producer_epoch,
        committed=call.committed,
        min_version=lowest,
        max_version=highest,
    )


def _description(row: Any) -> RawDescription:
    return RawDescription(
        code=row.error_code,
        state=row.transaction_state,
        producer_id=row.producer_id,
        producer_epoch=row.producer_epoch,
        started_at_ms=row.transaction_start_time_ms,
        timeout_ms=row.transaction_timeout_ms,
        partitions={topic.topic: tuple(sorted(topic.partitions)) for topic in row.topics},
    )


def _translated(error: Exception, brokers: str) -> ExternalError:
    if isinstance(error, _HOPELESS):
        return ExternalError(
            f"Kafka at {brokers} refused the committer: {error}",
            remedy="check security.protocol, sasl.mechanism and the credentials under `properties:`",
        )
    return ExternalError(f"no Kafka broker answers the committer at {brokers}: {error}", retry=True)


def _silence() -> None:
    """kafka-python logs every broken connection at length; ours tell it once, in errors."""
    for name in _QUIET:
        logger = logging.getLogger(name)
        if logger.level == logging.NOTSET:
            logger.setLevel(logging.CRITICAL + 1)
