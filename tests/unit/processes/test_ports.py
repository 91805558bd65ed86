"""Ports: what is taken is seen, what is drawn is free."""

from __future__ import annotations

import socket

from headrace.processes.ports import free_port, is_free


def test_a_port_that_someone_listens_on_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        assert not is_free(server.getsockname()[1])


def test_a_drawn_port_is_free_and_another_one_than_excluded() -> None:
    ports = [free_port() for _ in range(5)]
    # somebody else on this host may take one meanwhile
    assert any(is_free(port) for port in ports)
    assert free_port(other_than=ports[0]) != ports[0]
