"""The network of a cluster with nodes: a switch in a namespace of its own, wires to here and to each node.

    switch namespace ── bridge `nodes`   the cluster's name server
                     ├─ wire to here     the control plane, and what tests run for pods
                     └─ wires to nodes   each its eth0; behind it are its pods

Here, the switch and every node have routes to all pods, so pods keep their addresses everywhere. There is no way out.
This machine's packet filter does not see what nodes send each other. What is cut is cut without a word. Needs root and
iproute2.
"""

from __future__ import annotations

import subprocess

from support.clusters.network_hosts import Namespace
from support.kubernetes.nodes.addresses import NodeAddresses
from support.patience import WAIT_SECONDS

_BRIDGE = "nodes"


class NodeNetwork:
    """Nodes are wired one by one. It ends with this process."""

    def __init__(self, addresses: NodeAddresses) -> None:
        self.addresses = addresses
        self.switch = Namespace()
        self.wire_here = f"hk{self.switch.pid}"
        """The name of its end here."""
        try:
            self._build()
        except BaseException:
            self.close()
            raise

    def wire(self, number: int, pid: int) -> None:
        """Connects the network namespace of a process, which is a node's, as its eth0."""
        port = _port(number)
        self.switch.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(pid))
        self.switch.run("ip", "link", "set", port, "master", _BRIDGE, "up")

    def node_routes(self, number: int) -> list[str]:
        """Routes of a node: everything but other nodes' pods is here."""
        places = self.addresses
        others = (each for each in places.numbers if each != number)
        return [f"default via {places.here}", *(f"{places.pods_of(each)} via {places.node(each)}" for each in others)]

    def cut(self, number: int) -> None:
        """Packets from and to a node get lost from now on; its pods run on."""
        self.switch.run("ip", "link", "set", _port(number), "down")

    def heal(self, number: int) -> None:
        """Ends a cut."""
        self.switch.run("ip", "link", "set", _port(number), "up")

    def close(self) -> None:
        """Removes the switch. Wires and routes go with it."""
        # at once: a namespace is taken down in the background
        subprocess.run(["ip", "link", "del", self.wire_here], capture_output=True, check=False, timeout=WAIT_SECONDS)
        self.switch.close()

    def _build(self) -> None:
        places, wire = self.addresses, self.wire_here
        self.switch.run("ip", "link", "add", _BRIDGE, "type", "bridge")
        self.switch.run("ip", "address", "add", f"{places.name_server}/24", "dev", _BRIDGE)
        self.switch.run("ip", "link", "set", _BRIDGE, "up")
        run("ip", "link", "add", wire, "type", "veth", "peer", "name", "here", "netns", str(self.switch.pid))
        self.switch.run("ip", "link", "set", "here", "master", _BRIDGE, "up")
        run("ip", "address", "add", f"{places.here}/24", "dev", wire)
        run("ip", "link", "set", wire, "up")
        # any node forwards to services
        run("ip", "route", "add", places.services, "via", places.node(1))
        for number in places.numbers:
            route = ("ip", "route", "add", places.pods_of(number), "via", places.node(number))
            run(*route)
            self.switch.run(*route)


def run(*command: str) -> str:
    """Returns what a command prints; fails with its message."""
    done = subprocess.run(command, capture_output=True, text=True, timeout=WAIT_SECONDS, check=False)
    assert done.returncode == 0, f"{' '.join(command)}: {done.stderr}"
    return done.stdout


def _port(number: int) -> str:
    return f"node{number}"
