"""A cluster whose pods run: a control plane here, and nodes in namespaces of this machine. Needs root.

Its addresses are drawn, so several may run side by side. It starts in 5 s with one node. It has no way out; pods reach
what listens at `here`, such as a broker of a test. Processes, mounts, wires and packet filters end with this process,
whatever becomes of it; only empty control groups are left then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

from support.kubernetes.control.access import Access
from support.kubernetes.control.cluster import ControlCluster
from support.kubernetes.control.control_plane import SCHEDULER, ControlPlane, Ports
from support.kubernetes.control.server_process import ServerProcess
from support.kubernetes.nodes.addresses import NodeAddresses
from support.kubernetes.nodes.image_archive import write_machine_image, write_pause_image
from support.kubernetes.nodes.network import NodeNetwork
from support.kubernetes.nodes.node import Node
from support.kubernetes.nodes.requirements import private_folders, require_nodes
from support.processes.running import wait_until
from support.reserved_port import reserved_port

NAME_SERVER = "coredns"
_API_PORT = 6443
_COREFILE = """\
.:53 {{
  errors
  kubernetes cluster.local {{
    kubeconfig {kubeconfig}
    ttl 2
  }}
}}
"""


class NodeCluster(ControlCluster):
    """Nodes are named node1, node2 .. Its servers may be killed and suspended as those of a control cluster."""

    def __init__(self, plane: ControlPlane, network: NodeNetwork, nodes: Sequence[Node], scheduler_port: int) -> None:
        super().__init__(plane)
        self.network = network
        self.nodes = {node.name: node for node in nodes}
        self.servers[SCHEDULER] = plane.scheduler(scheduler_port)
        self.servers[NAME_SERVER] = self._name_server(plane)
        self._folder = plane.folder
        self._binaries = plane.binaries

    @property
    def here(self) -> str:
        """The address at which pods reach what listens on this machine."""
        return self.network.addresses.here

    def boot(self) -> None:
        """Starts everything. Returns when all nodes are ready and the namespace `default` takes pods."""
        super().boot()
        self.start(SCHEDULER)
        self.start(NAME_SERVER)
        pause, machine = self._folder / "pause.tar", self._folder / "machine.tar"
        write_pause_image(self._binaries / "pause", pause)
        write_machine_image(machine)
        for node in self.nodes.values():
            node.start([pause, machine])
        for name in self.nodes:
            self.wait_node(name, ready=True)
        for server in self.servers.values():
            server.require_alive()

    def import_image(self, archive: Path) -> None:
        """Makes an image known on all nodes. Pods name it with `imagePullPolicy: Never`."""
        for node in self.nodes.values():
            node.import_image(archive)

    def wait_node(self, name: str, *, ready: bool) -> None:
        """Returns when the cluster takes a node for ready, or no longer does: some 20 s after it was last heard of."""

        def is_so() -> bool:
            if ready:
                self.nodes[name].require_alive()
            return self._is_ready(name) == ready

        wait_until(is_so, f"{name} is {'' if ready else 'not '}ready: see {self._folder / name}")

    def kill_node(self, name: str) -> None:
        """A machine is gone, with its pods; nobody tells the cluster."""
        self.nodes[name].kill()

    @contextmanager
    def cut_off(self, name: str) -> Iterator[None]:
        """A node and its pods run on, and nobody reaches them nor is reached by them."""
        number = self.nodes[name].settings.number
        self.network.cut(number)
        try:
            yield
        finally:
            self.network.heal(number)

    @contextmanager
    def cordoned(self, name: str) -> Iterator[None]:
        """No pod is started on a node meanwhile, as while it is drained."""
        self.kubectl("cordon", name)
        try:
            yield
        finally:
            self.kubectl("uncordon", name)

    def pod(self, namespace: str, name: str) -> dict[str, Any] | None:
        """As it is now; None: it is gone."""
        return self.api.find(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def phase(self, namespace: str, name: str) -> str | None:
        """Pending, Running, Succeeded or Failed; None: the pod is gone."""
        pod = self.pod(namespace, name)
        return None if pod is None else str(pod["status"]["phase"])

    def log(self, namespace: str, name: str) -> str:
        """What the container of a pod has printed; empty where it has not begun."""
        return self.api.log(f"/api/v1/namespaces/{namespace}/pods/{name}")

    def end(self) -> None:
        """Kills everything."""
        for node in self.nodes.values():
            node.kill()
        super().end()

    def _is_ready(self, name: str) -> bool:
        node = self.api.find(f"/api/v1/nodes/{name}")
        conditions = [] if node is None else node["status"].get("conditions", [])
        return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)

    def _name_server(self, plane: ControlPlane) -> ServerProcess:
        """Runs on the switch, so that a node that is cut off has none."""
        corefile = plane.folder / "Corefile"
        corefile.write_text(_COREFILE.format(kubeconfig=self.kubeconfig))
        command = [*self.network.switch.prefix, str(plane.binaries / NAME_SERVER), "-conf", str(corefile)]
        return ServerProcess(NAME_SERVER, command, plane.folder / f"{NAME_SERVER}.log")


@contextmanager
def node_cluster(folder: Path, nodes: int = 1) -> Iterator[NodeCluster]:
    """A cluster whose nodes are ready; all files are in `folder`. Skips or fails where something is missing."""
    binaries = require_nodes()
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as undo:
        undo.enter_context(private_folders())
        addresses = NodeAddresses.drawn(nodes)
        network = NodeNetwork(addresses)
        undo.callback(network.close)
        access = Access(folder / "access", f"https://{addresses.here}:{_API_PORT}")
        made = []
        for number in addresses.numbers:
            made.append(Node(number, folder / f"node{number}", binaries, access, network))
            undo.callback(made[-1].end)
        etcd, peer, manager, scheduler = (undo.enter_context(reserved_port()) for _ in range(4))
        ports = Ports(etcd, peer, _API_PORT, manager)
        plane = ControlPlane(binaries, folder, access, ports, addresses.here, addresses.services)
        cluster = NodeCluster(plane, network, made, scheduler)
        undo.callback(cluster.end)
        cluster.boot()
        yield cluster
