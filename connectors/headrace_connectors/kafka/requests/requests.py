"""The committer's requests to brokers, and their answers, typed. Pure.

librdkafka has no call for most of them. Brokers from Kafka 3.0 on support them all; a request is sent in the highest
common version. Message definitions: https://kafka.apache.org/protocol#protocol_messages
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from headrace_connectors.kafka.requests.protocol import TransactionProtocol
from headrace_connectors.kafka.requests.wire_format import MessageReader, MessageWriter

A_co = TypeVar("A_co", covariant=True)

API_VERSIONS = 18
BROKER_RESOURCE = 4
"""The resource type of a broker's settings."""
_TRANSACTION_KEY = 1
"""The key type of FindCoordinator for transactional ids."""
_NEVER_FLEXIBLE = 1 << 15


@dataclass(frozen=True, slots=True)
class Request(Generic[A_co]):
    """One request.

    lowest, highest   the versions that `write` and `read` support
    flexible_from     the first flexible version
    write, read       the body: `write(writer, version)`, `read(reader, version)`
    """

    name: str
    api_key: int
    lowest: int
    highest: int
    flexible_from: int
    write: Callable[[MessageWriter, int], None]
    read: Callable[[MessageReader, int], A_co]

    def content(self, version: int, correlation: int, client_id: str) -> bytes:
        """Header and body, without the length prefix."""
        flexible = version >= self.flexible_from
        # the header's client id is never compact; a flexible header only adds tagged fields
        header = MessageWriter(flexible=False)
        header.int16(self.api_key)
        header.int16(version)
        header.int32(correlation)
        header.string(client_id)
        body = MessageWriter(flexible=flexible)
        body.end_struct()
        self.write(body, version)
        return header.content() + body.content()

    def answer(self, version: int, content: bytes) -> A_co:
        """The body of an answer, after its correlation id. Raises MalformedAnswerError."""
        flexible = version >= self.flexible_from
        reader = MessageReader(content, flexible=flexible)
        # by KIP-511 the answer to ApiVersions has no tagged fields in its header: it precedes any agreement on versions
        if self.api_key != API_VERSIONS:
            reader.end_struct()
        return self.read(reader, version)


@dataclass(frozen=True, slots=True)
class BrokerPlace:
    """The address of a broker."""

    broker: int
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Coordinator:
    """The broker that coordinates a transaction; `code` other than 0: unknown."""

    code: int
    broker: int = -1


@dataclass(frozen=True, slots=True)
class CoordinatorPlace:
    """FindCoordinator's answer for one id: the broker and its address."""

    name: str
    coordinator: Coordinator
    place: BrokerPlace


@dataclass(frozen=True, slots=True)
class RawDescription:
    """DescribeTransactions' answer for one id. `started_at_ms`: -1 without a transaction."""

    code: int
    state: str = ""
    producer_id: int = -1
    producer_epoch: int = -1
    started_at_ms: int = -1
    timeout_ms: int = 0
    partitions: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class EndCall:
    """One EndTxn. `protocol`: that of the transaction's producer."""

    name: str
    producer_id: int
    producer_epoch: int
    committed: bool
    protocol: TransactionProtocol = TransactionProtocol.TV1


@dataclass(frozen=True, slots=True)
class SaslAnswer:
    """The answer to a step of a login. `lifetime_ms`: of the login; 0: as long as the connection."""

    code: int
    message: str
    content: bytes
    lifetime_ms: int


END_VERSIONS: Mapping[TransactionProtocol, tuple[int, int]] = {TransactionProtocol.TV1: (1, 4)}
"""The lowest and highest version of EndTxn in each protocol. In TV1 the epoch stays the same, so a second EndTxn
changes nothing."""


def api_versions() -> Request[tuple[int, dict[int, tuple[int, int]]]]:
    """Error code, and api key -> lowest and highest version. Uses version 0, which every broker answers."""

    def read(reader: MessageReader, _version: int) -> tuple[int, dict[int, tuple[int, int]]]:
        code = reader.int16()
        rows = reader.array(lambda: (reader.int16(), (reader.int16(), reader.int16())))
        return code, dict(rows)

    return Request("ApiVersions", API_VERSIONS, 0, 0, _NEVER_FLEXIBLE, _nothing, read)


def sasl_handshake(mechanism: str) -> Request[tuple[int, list[str]]]:
    """Error code, and the mechanisms that the listener offers."""

    def read(reader: MessageReader, _version: int) -> tuple[int, list[str]]:
        return reader.int16(), reader.array(reader.string)

    return Request("SaslHandshake", 17, 1, 1, _NEVER_FLEXIBLE, lambda writer, _version: writer.string(mechanism), read)


def sasl_authenticate(content: bytes) -> Request[SaslAnswer]:
    """One step of a login."""

    def write(writer: MessageWriter, _version: int) -> None:
        writer.bytes_(content)
        writer.end_struct()

    def read(reader: MessageReader, _version: int) -> SaslAnswer:
        return SaslAnswer(reader.int16(), reader.string(), reader.bytes_(), reader.int64())

    return Request("SaslAuthenticate", 36, 1, 2, 2, write, read)


def metadata() -> Request[list[BrokerPlace]]:
    """The brokers of the cluster, without any topic."""

    def write(writer: MessageWriter, version: int) -> None:
        writer.array([], writer.string)
        if version >= 4:
            writer.boolean(False)  # noqa: FBT003 - makes no topic

    def read(reader: MessageReader, version: int) -> list[BrokerPlace]:
        if version >= 3:
            reader.int32()

        def broker() -> BrokerPlace:
            found = BrokerPlace(reader.int32(), reader.string(), reader.int32())
            reader.nullable_string()
            return found

        return reader.array(broker)

    return Request("Metadata", 3, 1, 7, 9, write, read)


@dataclass(frozen=True, slots=True)
class TopicLog:
    """The cluster and the id behind a topic's name, both as librdkafka writes them; empty: the broker names none."""

    code: int
    cluster: str = ""
    topic_id: str = ""


def topic_log(topic: str) -> Request[TopicLog]:
    """The log behind a topic's name. Any broker answers; version 11, since Kafka 3.0."""

    def write(writer: MessageWriter, _version: int) -> None:
        def named(name: str) -> None:
            # instead of an id
            writer.int64(0)
            writer.int64(0)
            writer.string(name)
            writer.end_struct()

        writer.array([topic], named)
        writer.boolean(False)  # noqa: FBT003 - makes no topic
        writer.boolean(False)  # noqa: FBT003 - no authorized operations
        writer.end_struct()

    def read(reader: MessageReader, _version: int) -> TopicLog:
        def broker() -> None:
            reader.int32(), reader.string(), reader.int32(), reader.nullable_string()
            reader.end_struct()

        reader.int32()
        reader.array(broker)
        cluster = reader.nullable_string() or ""
        # the controller, and the number of topics: one was asked for, and nothing behind its id is read
        reader.int32(), reader.varint()
        code = reader.int16()
        reader.nullable_string()
        most, least = reader.int64(), reader.int64()
        told = base64.b64encode(struct.pack(">qq", most, least)).decode().rstrip("=")
        return TopicLog(code, cluster, told if most or least else "")

    return Request("Metadata", 3, 11, 12, 9, write, read)


def find_coordinators(names: Sequence[str]) -> Request[list[CoordinatorPlace]]:
    """The coordinator of each transactional id. Version 4, since Kafka 3.0, is the first one for several ids."""

    def write(writer: MessageWriter, _version: int) -> None:
        writer.int8(_TRANSACTION_KEY)
        writer.array(names, writer.string)
        writer.end_struct()

    def read(reader: MessageReader, _version: int) -> list[CoordinatorPlace]:
        def found() -> CoordinatorPlace:
            name = reader.string()
            place = BrokerPlace(reader.int32(), reader.string(), reader.int32())
            coordinator = Coordinator(reader.int16(), place.broker)
            reader.nullable_string()
            reader.end_struct()
            return CoordinatorPlace(name, coordinator, place)

        reader.int32()
        return reader.array(found)

    return Request("FindCoordinator", 10, 4, 6, 3, write, read)


def describe_transactions(names: Sequence[str]) -> Request[dict[str, RawDescription]]:
    """The broker's description of each transaction."""

    def write(writer: MessageWriter, _version: int) -> None:
        writer.array(names, writer.string)
        writer.end_struct()

    def read(reader: MessageReader, _version: int) -> dict[str, RawDescription]:
        reader.int32()
        return dict(reader.array(lambda: _description(reader)))

    return Request("DescribeTransactions", 65, 0, 0, 0, write, read)


def _description(reader: MessageReader) -> tuple[str, RawDescription]:
    def topic() -> tuple[str, tuple[int, ...]]:
        name = reader.string()
        partitions = tuple(sorted(reader.array(reader.int32)))
        reader.end_struct()
        return name, partitions

    code, name, state, timeout_ms = reader.int16(), reader.string(), reader.string(), reader.int32()
    started_at_ms, producer_id, producer_epoch = reader.int64(), reader.int64(), reader.int16()
    partitions = dict(reader.array(topic))
    reader.end_struct()
    return name, RawDescription(code, state, producer_id, producer_epoch, started_at_ms, timeout_ms, partitions)


def end_transaction(call: EndCall) -> Request[int]:
    """EndTxn; returns an error code."""

    def write(writer: MessageWriter, _version: int) -> None:
        writer.string(call.name)
        writer.int64(call.producer_id)
        writer.int16(call.producer_epoch)
        writer.boolean(call.committed)
        writer.end_struct()

    lowest, highest = END_VERSIONS[call.protocol]
    return Request("EndTxn", 26, lowest, highest, 3, write, _code)


def init_producer_id(name: str, *, timeout_ms: int) -> Request[int]:
    """InitProducerId; returns an error code. Aborts the name's open transaction and raises its epoch."""

    def write(writer: MessageWriter, version: int) -> None:
        writer.string(name)
        writer.int32(timeout_ms)
        if version >= 3:
            # without a producer id: fences any producer that holds the name
            writer.int64(-1)
            writer.int16(-1)
        writer.end_struct()

    return Request("InitProducerId", 22, 2, 4, 2, write, _code)


def list_transactions(states: Sequence[str], pattern: str) -> Request[tuple[int, dict[str, str]]]:
    """Error code, and name -> state. Brokers before 4.1 ignore `pattern`."""

    def write(writer: MessageWriter, version: int) -> None:
        writer.array(states, writer.string)
        writer.array([], writer.int64)
        if version >= 1:
            writer.int64(-1)
        if version >= 2:
            writer.string(pattern)
        writer.end_struct()

    def read(reader: MessageReader, _version: int) -> tuple[int, dict[str, str]]:
        def row() -> tuple[str, str]:
            name = reader.string()
            reader.int64()
            state = reader.string()
            reader.end_struct()
            return name, state

        reader.int32()
        code = reader.int16()
        reader.array(reader.string)
        return code, dict(reader.array(row))

    return Request("ListTransactions", 66, 0, 2, 0, write, read)


def broker_setting(broker: int, name: str) -> Request[tuple[int, str | None]]:
    """DescribeConfigs of one setting of one broker: error code, and its value."""

    def write(writer: MessageWriter, version: int) -> None:
        def resource(number: int) -> None:
            writer.int8(BROKER_RESOURCE)
            writer.string(str(number))
            writer.array([name], writer.string)
            writer.end_struct()

        writer.array([broker], resource)
        writer.boolean(False)  # noqa: FBT003 - no synonyms
        if version >= 3:
            writer.boolean(False)  # noqa: FBT003 - no documentation
        writer.end_struct()

    def read(reader: MessageReader, version: int) -> tuple[int, str | None]:
        reader.int32()
        results = reader.array(lambda: _settings(reader, version))
        code, values = results[0] if results else (0, {})
        return code, values.get(name)

    return Request("DescribeConfigs", 32, 1, 4, 4, write, read)


def _settings(reader: MessageReader, version: int) -> tuple[int, dict[str, str | None]]:
    def synonym() -> None:
        reader.string(), reader.nullable_string(), reader.int8()
        reader.end_struct()

    def setting() -> tuple[str, str | None]:
        name, value = reader.string(), reader.nullable_string()
        # read-only, source, sensitive
        reader.int8(), reader.int8(), reader.int8()
        reader.array(synonym)
        if version >= 3:
            # type and documentation
            reader.int8(), reader.nullable_string()
        reader.end_struct()
        return name, value

    code = reader.int16()
    # message, type and name of the resource
    reader.nullable_string(), reader.int8(), reader.string()
    found = dict(reader.array(setting))
    reader.end_struct()
    return code, found


def _nothing(_writer: MessageWriter, _version: int) -> None:
    pass


def _code(reader: MessageReader, _version: int) -> int:
    reader.int32()
    return reader.int16()
