"""librdkafka settings that a pipeline passes through: which ones headrace owns, and which ones are secret.

Knows nothing of topics or positions.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field

MASK = "***"

_SECRET_PARTS = ("password", "passphrase", "secret", "sasl.oauthbearer.config", "ssl.key.pem", "private.key.pem")

_CONNECTION = (
    "security.",
    "sasl.",
    "ssl.",
    "client.",
    "socket.",
    "broker.",
    "reconnect.",
    "enable.ssl.",
    "enable.sasl.",
    # for the endpoint that issues access tokens
    "https.",
)

_OWNED_BOTH = {
    "bootstrap.servers": "write `brokers:` instead",
    "metadata.broker.list": "write `brokers:` instead",
    "client.rack.callback": "callbacks cannot come from a file",
    "on_delivery": "callbacks cannot come from a file",
    "error_cb": "callbacks cannot come from a file",
    "stats_cb": "callbacks cannot come from a file",
    "logger": "log lines go to headrace's own log",
    "log.queue": "log lines go to headrace's own log",
}
OWNED_BY_SOURCE = _OWNED_BOTH | {
    "group.id": "write `group:` instead",
    "group.instance.id": "partitions are assigned by headrace, not by the group",
    "partition.assignment.strategy": "partitions are assigned by headrace, not by the group",
    "enable.auto.commit": "positions are committed after a checkpoint only",
    "enable.auto.offset.store": "positions are committed after a checkpoint only",
    "auto.offset.reset": "write `start:` instead; a position that is gone is an error, never a silent jump",
    "isolation.level": "headrace reads committed records only",
    "enable.partition.eof": "headrace needs it to find the end of a partition",
}
OWNED_BY_SINK = _OWNED_BOTH | {
    "transactional.id": "write `delivery:` instead",
    "transaction.timeout.ms": "write `transaction_timeout:` instead",
    "enable.idempotence": "retries must neither reorder nor repeat records",
    "acks": "every replica in sync must have a record before positions advance",
    "request.required.acks": "every replica in sync must have a record before positions advance",
    "partitioner": "keys go where Java's partitioner puts them (murmur2_random)",
    "queue.buffering.max.messages": "the sink bounds its own buffer",
    "queue.buffering.max.kbytes": "the sink bounds its own buffer",
    "delivery.report.only.error": "headrace counts failed records by it",
    "dr_cb": "callbacks cannot come from a file",
    "dr_msg_cb": "callbacks cannot come from a file",
}


def is_secret(name: str) -> bool:
    """Whether the value of this setting must never be shown."""
    return any(part in name for part in _SECRET_PARTS)


def connection_settings(properties: Mapping[str, str]) -> dict[str, str]:
    """The settings that determine connection and login: shared by all kinds of clients."""
    return {name: value for name, value in properties.items() if name.startswith(_CONNECTION)}


def token_source(properties: Mapping[str, str]) -> Literal["oidc", "unsecured"] | None:
    """The source of librdkafka's OAUTHBEARER tokens when it is configured by properties only; None: none."""
    if properties.get("sasl.oauthbearer.method", "default").lower() == "oidc":
        return "oidc"
    unsecured = properties.get("enable.sasl.oauthbearer.unsecure.jwt", "false").lower()
    return "unsecured" if unsecured in {"true", "t", "1"} else None


def _login_problem(properties: Mapping[str, str]) -> str | None:
    """The problem of a login without a token source: librdkafka would wait forever, without an error."""
    mechanism = properties.get("sasl.mechanism", properties.get("sasl.mechanisms", ""))
    if mechanism == "OAUTHBEARER" and token_source(properties) is None:
        return (
            "sasl.mechanism: OAUTHBEARER has no source of tokens: write sasl.oauthbearer.method: oidc with "
            "sasl.oauthbearer.token.endpoint.url, .client.id and .client.secret; or, for brokers of tests, "
            "enable.sasl.oauthbearer.unsecure.jwt: true"
        )
    return None


def _texts(given: Any) -> Any:
    if not isinstance(given, Mapping):
        raise ValueError("properties is a mapping of librdkafka settings, such as {security.protocol: SASL_SSL}")  # noqa: TRY004 - pydantic collects ValueErrors
    texts: dict[str, str] = {}
    for name, value in given.items():
        if isinstance(value, Mapping | list | tuple) or value is None:
            raise ValueError(f"the value of {name!r} is one text or number")
        text = str(value).lower() if isinstance(value, bool) else str(value)
        if text == MASK and is_secret(str(name)):
            raise ValueError(f"{name!r} holds {MASK}, which stands for a hidden value: give the value itself")
        texts[str(name)] = text
    return texts


PropertiesField = Annotated[
    dict[str, str],
    BeforeValidator(_texts),
    Field(default_factory=dict, repr=False, description="librdkafka settings, passed on as they are"),
]


def refused(properties: Mapping[str, str], owned: Mapping[str, str]) -> str | None:
    """The message for the first setting that headrace owns, or for a login that cannot work; or None."""
    for name in properties:
        if name in owned:
            return f"properties may not set {name!r}: {owned[name]}"
    return _login_problem(properties)
