"""Addresses that a worker is told, and the one that it tells."""

from __future__ import annotations

import pytest

from headrace.core.errors import UnreachableError, UserError
from headrace.worker.supervision.advertise import address_towards, split_address


@pytest.mark.parametrize(
    ("text", "address"),
    [("127.0.0.1:7070", ("127.0.0.1", 7070)), ("host:1", ("host", 1)), ("[::1]:7070", ("::1", 7070))],
)
def test_an_address(text: str, address: tuple[str, int]) -> None:
    assert split_address(text) == address


@pytest.mark.parametrize("text", ["", "host", ":7070", "host:", "host:x", "host:0", "host:65536", "host:-1"])
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(UserError, match="is no address"):
        split_address(text)


def test_loopback_is_reached_from_loopback() -> None:
    assert address_towards("127.0.0.1:7070") == "127.0.0.1"


def test_a_host_that_is_not_there() -> None:
    with pytest.raises(UnreachableError, match="no way to the coordinator"):
        address_towards("no-such-host.invalid:7070")
