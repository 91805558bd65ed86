"""Command lines of the servers that a control plane consists of."""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_network
from pathlib import Path

from support.kubernetes.control.access import MASTERS, SERVER_NAMES, Access
from support.kubernetes.control.server_process import ServerProcess

ETCD, API_SERVER, CONTROLLER_MANAGER = "etcd", "kube-apiserver", "kube-controller-manager"
SCHEDULER = "kube-scheduler"
LOOPBACK = "127.0.0.1"
SERVICES = "10.96.0.0/16"
"""Addresses of services where nothing is behind them."""
NODE_GRACE = "16s"
"""After so long without a word of its kubelet a node is not ready: the controller manager takes no less than four of
the kubelet's reports."""


@dataclass(frozen=True, slots=True)
class Ports:
    """Where the servers listen."""

    etcd: int
    etcd_peer: int
    api_server: int
    controller_manager: int


@dataclass(frozen=True, slots=True)
class ControlPlane:
    """Builds the servers' processes, which are not started.

    folder: for data and logs; address: of the API server, whose port is in `ports`; services: the subnet of services.
    """

    binaries: Path
    folder: Path
    access: Access
    ports: Ports
    address: str = LOOPBACK
    services: str = SERVICES

    def etcd(self) -> ServerProcess:
        """It does not wait for its disk: what it stores need not survive the machine."""
        client, peer = (f"http://{LOOPBACK}:{port}" for port in (self.ports.etcd, self.ports.etcd_peer))
        return self._server(
            ETCD,
            f"--data-dir={self.folder / 'etcd'}",
            f"--listen-client-urls={client}",
            f"--advertise-client-urls={client}",
            f"--listen-peer-urls={peer}",
            f"--initial-advertise-peer-urls={peer}",
            f"--initial-cluster=default={peer}",
            "--unsafe-no-fsync",
            "--log-level=warn",
        )

    def api_server(self) -> ServerProcess:
        """Users are authenticated by certificate or service account token, and authorized by RBAC."""
        first_service = str(ip_network(self.services)[1])
        hosts = (self.address, first_service, *SERVER_NAMES)
        served = self.access.server("apiserver", hosts)
        signing = self.access.service_accounts
        to_kubelets = self.access.client("kube-apiserver-kubelet-client", MASTERS)
        return self._server(
            API_SERVER,
            f"--etcd-servers=http://{LOOPBACK}:{self.ports.etcd}",
            f"--bind-address={self.address}",
            f"--advertise-address={self.address}",
            f"--secure-port={self.ports.api_server}",
            f"--tls-cert-file={served.certificate}",
            f"--tls-private-key-file={served.key}",
            f"--client-ca-file={self.access.authority}",
            "--authorization-mode=Node,RBAC",
            "--enable-admission-plugins=NodeRestriction",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={signing.certificate}",
            f"--service-account-signing-key-file={signing.key}",
            f"--service-cluster-ip-range={self.services}",
            f"--kubelet-client-certificate={to_kubelets.certificate}",
            f"--kubelet-client-key={to_kubelets.key}",
            f"--kubelet-certificate-authority={self.access.authority}",
            "--kubelet-preferred-address-types=InternalIP",
            # pods could not reach an endpoint on loopback
            *(["--endpoint-reconciler-type=none"] if self.address == LOOPBACK else []),
            f"--cert-dir={self.folder / 'apiserver'}",
            "--allow-privileged=true",
            "--profiling=false",
            "--event-ttl=10m",
        )

    def controller_manager(self) -> ServerProcess:
        """Garbage collection, service accounts, namespaces, and the controllers of workloads. One user for all of them:
        a service account for each would take 4 s of the start.
        """
        return self._server(
            CONTROLLER_MANAGER,
            *self._client_options(CONTROLLER_MANAGER, MASTERS),
            f"--secure-port={self.ports.controller_manager}",
            f"--service-account-private-key-file={self.access.service_accounts.key}",
            f"--root-ca-file={self.access.authority}",
            "--use-service-account-credentials=false",
            f"--node-monitor-grace-period={NODE_GRACE}",
            f"--flex-volume-plugin-dir={self.folder / 'volume-plugins'}",
        )

    def scheduler(self, port: int) -> ServerProcess:
        """Assigns pods to nodes."""
        return self._server(SCHEDULER, *self._client_options(SCHEDULER), f"--secure-port={port}")

    def _client_options(self, name: str, group: str | None = None) -> list[str]:
        """Options of a server of the control plane that is a client of the API server."""
        config = self.access.kubeconfig(name, self.access.client(f"system:{name}", group))
        kinds = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
        own = (f"--bind-address={LOOPBACK}", "--leader-elect=false", f"--cert-dir={self.folder / name}")
        return [*(f"--{kind}={config}" for kind in kinds), *own]

    def _server(self, name: str, *options: str) -> ServerProcess:
        return ServerProcess(name, [self.binaries / name, *options], self.folder / f"{name}.log")
