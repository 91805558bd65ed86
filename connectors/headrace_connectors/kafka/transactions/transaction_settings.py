"""The checkpoint settings that `delivery: exactly-once` requires, and the client settings of a transaction. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from headrace.connect.checkpoint_terms import refused_terms
from headrace.connect.sink import CheckpointTerms
from headrace.core.config import duration_text

TRANSACTION_TIMEOUT_MIN_MS = 1_000
TRANSACTION_TIMEOUT_MAX_MS = 2**31 - 1
"""The client library's limits of the transaction timeout, in ms."""

_SOCKET_TIMEOUT_MS = 60_000
_MESSAGE_TIMEOUT_MS = 300_000
_SOCKET_TIMEOUT_NAME = "socket.timeout.ms"
_MESSAGE_TIMEOUT_NAMES = ("message.timeout.ms", "delivery.timeout.ms")


def unmet_terms(terms: CheckpointTerms, transaction_timeout_ms: int) -> list[str]:
    """The reasons why exactly-once delivery is impossible with these checkpoint settings, as messages with remedies;
    empty: it is possible."""
    refused = refused_terms(terms)
    if refused or terms.interval_ms is None:
        return refused
    parts = {
        "checkpoint.interval": terms.interval_ms,
        "checkpoint.timeout": terms.timeout_ms,
        "the restart delay": terms.restart_delay_ms,
    }
    needed = sum(parts.values())
    if needed < transaction_timeout_ms:
        return []
    sums = " + ".join(f"{name} {duration_text(value)}" for name, value in parts.items())
    longest = max(parts, key=lambda name: parts[name])
    return [
        f"a transaction may have to stay open for {duration_text(needed)} ({sums}), and the brokers would abort it "
        f"after transaction_timeout {duration_text(transaction_timeout_ms)}\n"
        f"  lower {longest}, or raise transaction_timeout above {duration_text(needed)} "
        "(the brokers' transaction.max.timeout.ms, 15m by default, must allow it)"
    ]


def transaction_settings(
    name: str, transaction_timeout_ms: int, properties: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, Any]]:
    """Returns (the pipeline's properties without socket and message timeouts, the client settings of a transaction).

    Without these settings the client library derives both timeouts from the transaction timeout, which would be 15
    minutes for a socket. A value of the pipeline is used unless it exceeds the transaction timeout, because the library
    rejects such values.
    """
    limits = (*_MESSAGE_TIMEOUT_NAMES, _SOCKET_TIMEOUT_NAME)
    rest = {each: value for each, value in properties.items() if each not in limits}
    socket_timeout_ms = _number(properties, (_SOCKET_TIMEOUT_NAME,), _SOCKET_TIMEOUT_MS)
    held: dict[str, Any] = {
        "transactional.id": name,
        "transaction.timeout.ms": transaction_timeout_ms,
        _MESSAGE_TIMEOUT_NAMES[0]: message_timeout_ms(properties, transaction_timeout_ms),
        _SOCKET_TIMEOUT_NAME: min(socket_timeout_ms, transaction_timeout_ms),
    }
    # a value that is not a number is rejected by the library, with its own message
    return rest, held | {each: properties[each] for each in limits if not properties.get(each, "0").isdecimal()}


def message_timeout_ms(properties: Mapping[str, str], transaction_timeout_ms: int) -> int:
    """The time limit for the delivery of a record, in ms. It is less than the transaction timeout, so that a record
    fails before its transaction expires."""
    # the library reads 0 as no limit
    wanted = _number(properties, _MESSAGE_TIMEOUT_NAMES, _MESSAGE_TIMEOUT_MS) or transaction_timeout_ms
    return wanted if wanted < transaction_timeout_ms else transaction_timeout_ms * 2 // 3


def _number(properties: Mapping[str, str], names: tuple[str, ...], default: int) -> int:
    given = [properties[name] for name in names if name in properties]
    return int(given[0]) if given and given[0].isdecimal() else default
