"""The version of Kafka's transaction protocol that a transaction was written with, and its record in a committable.
Pure.

Kafka has two (KIP-890). With TV1 the client adds partitions to the transaction, and EndTxn v0 to v4 leaves the producer
epoch as it is. With TV2 the broker adds partitions, and EndTxn v5 raises the epoch. The client chooses: brokers with
`transaction.version=2` serve both. A transaction has to end with the protocol that it was written with, because a
repeated EndTxn finds its transaction by the epoch.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any

from headrace.core.errors import UserError
from headrace_connectors.kafka.librdkafka.tested_versions import (
    CONFLUENT_KAFKA,
    TESTED_BELOW,
    Version,
    version_text,
)

_LIBRARY = "librdkafka"


class TransactionProtocol(StrEnum):
    """The protocols with which this version of headrace can end a transaction."""

    TV1 = "TV1"


def protocol_of_library(version: Version) -> TransactionProtocol:
    """The protocol that transactional producers of a librdkafka version use.

    Raises UserError for a version later than the tested ones: librdkafka may have moved to TV2 by then.
    """
    if version < TESTED_BELOW:
        return TransactionProtocol.TV1
    raise UserError(
        f"delivery: exactly-once is not tested with {_LIBRARY} {version_text(version)}, whose transaction protocol is "
        "not known",
        remedy=f"install one of the tested versions: pip install '{CONFLUENT_KAFKA}'; or write delivery: at-least-once",
    )


def recorded(protocol: TransactionProtocol, version: Version) -> dict[str, Any]:
    """The producer's entry in a committable's payload."""
    return {
        "protocol": str(protocol),
        "producer": {"library": _LIBRARY, "version": version_text(version)},
    }


def protocol_of(payload: Mapping[str, Any]) -> TransactionProtocol | None:
    """The protocol that a committable was written with; None: one that this version does not know.

    A payload without the field was written by an earlier version of headrace, all of which used librdkafka's TV1.
    """
    try:
        return TransactionProtocol(payload.get("protocol", TransactionProtocol.TV1))
    except ValueError:
        return None


def producer_text(payload: Mapping[str, Any]) -> str:
    """`librdkafka 2.16.0`: the producer's library, from a committable's payload."""
    producer = payload.get("producer")
    if not isinstance(producer, Mapping):
        return _LIBRARY
    return f"{producer.get('library', _LIBRARY)} {producer.get('version', '')}".rstrip()
