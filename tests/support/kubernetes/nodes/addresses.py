"""Addresses of a cluster with nodes, drawn so that clusters and other networks of this machine do not meet."""

from __future__ import annotations

from dataclasses import dataclass

from support.clusters.network_hosts import free_subnets


@dataclass(frozen=True, slots=True)
class NodeAddresses:
    """Subnets of 256 addresses, as `10.x.y`. pods: one of each node, whose numbers begin with 1."""

    machines: str
    service: str
    pods: tuple[str, ...]

    @staticmethod
    def drawn(nodes: int) -> NodeAddresses:
        """By chance, beside all that this machine has routes to."""
        subnets: dict[str, None] = {}
        while len(subnets) < nodes + 2:
            subnets.update(dict.fromkeys(free_subnets()))
        machines, service, *pods = subnets
        return NodeAddresses(machines, service, tuple(pods[:nodes]))

    @property
    def numbers(self) -> range:
        """Of the nodes."""
        return range(1, len(self.pods) + 1)

    @property
    def here(self) -> str:
        """This machine, as nodes and pods see it."""
        return f"{self.machines}.1"

    @property
    def name_server(self) -> str:
        """The cluster's."""
        return f"{self.machines}.2"

    def node(self, number: int) -> str:
        """A node's own."""
        return f"{self.machines}.{10 + number}"

    def pods_of(self, number: int) -> str:
        """The subnet of a node's pods."""
        return f"{self.pods[number - 1]}.0/24"

    @property
    def services(self) -> str:
        """The subnet of services."""
        return f"{self.service}.0/24"
