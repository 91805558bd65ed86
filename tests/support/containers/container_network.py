"""A network between containers: its own addresses, which containers keep over cuts and restarts."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager

from docker.types import EndpointConfig, IPAMConfig, IPAMPool

from headrace.processes.ports import free_port
from support.clusters.network_hosts import free_subnets
from support.containers.engine import patient_client

_FIRST = 11
_API = "1.41"  # of Docker 20.10


class ContainerNetwork:
    """Addresses are given in the order in which names are first asked for.

    here   where published ports listen: an address on this machine's loopback that nobody else listens on, so that a
           port stays free from when it is chosen until it is published, and while its container is away
    """

    def __init__(self) -> None:
        self._subnet, _ = free_subnets()
        pool = IPAMPool(subnet=f"{self._subnet}.0/24", gateway=self.gateway)
        self.here = f"127.{self._subnet.removeprefix('10.')}.1"
        given = {"driver": "bridge", "ipam": IPAMConfig(pool_configs=[pool])}
        self.name = f"headrace-{uuid.uuid4().hex[:12]}"
        """As the engine knows it."""
        self._docker = patient_client()
        self._network = self._docker.client_networks_create(self.name, given)
        self._names: list[str] = []

    def address(self, name: str) -> str:
        """Where the container of that name is, or will be."""
        if name not in self._names:
            self._names.append(name)
        return f"{self._subnet}.{_FIRST + self._names.index(name)}"

    def free_port(self) -> int:
        """For a port to publish."""
        return free_port(host=self.here)

    @property
    def gateway(self) -> str:
        """This machine, as containers see it."""
        return f"{self._subnet}.1"

    def endpoint(self, name: str) -> EndpointConfig:
        """What a container of that name is made with."""
        return EndpointConfig(_API, aliases=[name], ipv4_address=self.address(name))

    def connect(self, container: str, name: str) -> None:
        """Wires a container, which is found by its name here from then on."""
        self._network.connect(container, aliases=[name], ipv4_address=self.address(name))

    def disconnect(self, container: str) -> None:
        """Takes the wire away. Nobody gets a word of it."""
        self._network.disconnect(container, force=True)

    def close(self) -> None:
        """Its containers must be gone."""
        self._network.remove()
        self._docker.client.close()


@contextmanager
def container_network() -> Iterator[ContainerNetwork]:
    """Removed at the end."""
    network = ContainerNetwork()
    try:
        yield network
    finally:
        network.close()
