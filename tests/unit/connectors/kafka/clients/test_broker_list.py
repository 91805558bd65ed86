"""A list of brokers is read as librdkafka reads it."""

from __future__ import annotations

import pytest

from headrace_connectors.kafka.clients.broker_list import hosts_and_ports


@pytest.mark.parametrize(
    ("brokers", "expected"),
    [
        ("a:9093,b", [("a", 9093), ("b", 9092)]),
        (" a:1 , , b:2,", [("a", 1), ("b", 2)]),
        ("SASL_SSL://a:1", [("a", 1)]),
        ("[::1]:9093,[fe80::2%eth0]", [("::1", 9093), ("fe80::2%eth0", 9092)]),
    ],
)
def test_hosts_and_ports(brokers: str, expected: list[tuple[str, int]]) -> None:
    assert hosts_and_ports(brokers) == expected


@pytest.mark.parametrize("brokers", ["", " , ", "a b:9092", "a:0", "a:65536", "a:port", "::1:9092", "a,b:"])
def test_what_is_no_list_is_refused(brokers: str) -> None:
    with pytest.raises(ValueError, match="write host:port"):
        hosts_and_ports(brokers)
