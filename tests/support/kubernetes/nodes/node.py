"""A node of a cluster: containerd, kubelet and kube-proxy in namespaces of their own, and the pods there."""

from __future__ import annotations

import subprocess
from pathlib import Path

from support.kubernetes.control.access import Access
from support.kubernetes.control.server_process import ServerProcess
from support.kubernetes.nodes.control_groups import make_groups, remove_groups
from support.kubernetes.nodes.namespace import INSIDE, NodeNamespace
from support.kubernetes.nodes.network import NodeNetwork
from support.kubernetes.nodes.settings import NodeSettings
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until

CONTAINERD, KUBELET, PROXY = "containerd", "kubelet", "kube-proxy"


class Node:
    """Its containerd runs once it is made. Ended by `end`."""

    def __init__(self, number: int, folder: Path, binaries: Path, access: Access, network: NodeNetwork) -> None:
        self.name = f"node{number}"
        self._group = make_groups(network.switch.pid, self.name)
        self.settings = NodeSettings(number, self.name, folder, INSIDE, f"/{self._group}", network.addresses)
        self._binaries = binaries
        self._access = access
        folder.mkdir()
        self._namespace = NodeNamespace(number, folder, binaries / "pause", network)
        self.servers: dict[str, ServerProcess] = {}
        self._start(CONTAINERD, Path(CONTAINERD), f"--config={self.settings.containerd()}")

    def start(self, images: list[Path]) -> None:
        """Imports images and starts kubelet and kube-proxy; does not wait until the node is ready."""
        wait_until(self._has_containerd, f"containerd of {self.name} answers")
        for archive in images:
            self.import_image(archive)
        settings, access = self.settings, self._access
        served = access.server(f"kubelet-{self.name}", [settings.address, self.name])
        node = access.kubeconfig(self.name, access.client(f"system:node:{self.name}", "system:nodes"))
        proxy = access.kubeconfig(f"proxy-{self.name}", access.client("system:kube-proxy"))
        self._start(
            KUBELET,
            self._binaries / KUBELET,
            f"--config={settings.kubelet(access.authority, served)}",
            f"--kubeconfig={node}",
            f"--root-dir={settings.inside / KUBELET}",
            f"--hostname-override={self.name}",
            f"--node-ip={settings.address}",
            f"--cert-dir={settings.inside / 'kubelet-keys'}",
        )
        self._start(PROXY, self._binaries / PROXY, f"--config={settings.proxy(proxy)}")

    def import_image(self, archive: Path) -> None:
        """Makes an image known there: an archive in the format of `docker save`."""
        self.run(*self._ctr, "images", "import", str(archive))

    def require_alive(self) -> None:
        """Fails if a server has ended."""
        for server in self.servers.values():
            server.require_alive()

    def run(self, *command: str) -> str:
        """Returns what a command prints that runs on the node, also while that is cut off."""
        return self._namespace.run(*command)

    def kill(self) -> None:
        """The machine is gone, with all pods."""
        self._namespace.kill()

    def end(self) -> None:
        """Kills it, and removes what is left of it on this machine."""
        self.kill()
        for server in self.servers.values():
            server.kill()
        remove_groups(self._group)

    @property
    def _ctr(self) -> tuple[str, ...]:
        return ("ctr", "--address", str(self.settings.socket), "--namespace", "k8s.io")

    def _has_containerd(self) -> bool:
        self.require_alive()
        command = [*self._namespace.prefix, *self._ctr, "version"]
        return subprocess.run(command, capture_output=True, check=False, timeout=WAIT_SECONDS).returncode == 0

    def _start(self, name: str, program: Path, *options: str) -> None:
        log = self.settings.folder / f"{name}.log"
        server = ServerProcess(name, [program, *options], log, prefix=self._namespace.prefix)
        server.start()
        self.servers[name] = server
