"""A list of brokers in librdkafka's syntax: `host:port`, several separated by commas.

The security protocol and the port may be omitted; an IPv6 address is in brackets. Pure: no name is resolved.
"""

from __future__ import annotations

import re

PORT = 9092
PORT_MAX = 65_535
_BROKER = re.compile(r"([A-Za-z_]+://)?(?P<host>[\w.-]+|\[[0-9A-Fa-f:.]+(%\w+)?\])(:(?P<port>\d{1,5}))?")


def hosts_and_ports(brokers: str) -> list[tuple[str, int]]:
    """`a:9092,[::1]` as `[("a", 9092), ("::1", 9092)]`. Raises ValueError with the invalid entry."""
    entries = [part.strip() for part in brokers.split(",") if part.strip()]
    if not entries:
        raise ValueError("brokers is empty: write host:port, several separated by commas")
    return [_host_and_port(entry) for entry in entries]


def _host_and_port(entry: str) -> tuple[str, int]:
    match = _BROKER.fullmatch(entry)
    port = int(match["port"] or PORT) if match else 0
    if match is None or not 0 < port <= PORT_MAX:
        raise ValueError(f"{entry!r} is no broker: write host:port, several separated by commas")
    return match["host"].strip("[]"), port
