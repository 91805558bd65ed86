"""A control plane of Kubernetes on loopback: etcd, the API server and the controller manager, as released.

No pod runs in it: there is neither a scheduler nor a node. Objects are validated, admitted, stored, watched, owned and
collected as anywhere; service accounts, Roles and tokens work. The processes end with this one, whatever becomes of it.
"""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

from headrace.core.errors import HeadraceError
from headrace.kubernetes.collection import Collection
from headrace.kubernetes.connection import Connection, open_connection
from headrace_dev.broker.process import BrokerProcess, start_leashed
from support.kubernetes.binaries import kubernetes_binaries
from support.kubernetes.cluster_keys import MASTERS, ClusterKeys
from support.processes.running import wait_until
from support.reserved_port import LOOPBACK, reserved_port

ETCD, API_SERVER, CONTROLLER_MANAGER = "etcd", "kube-apiserver", "kube-controller-manager"
_SERVICES = "10.96.0.0/16"
_FIRST_SERVICE = "10.96.0.1"


class ControlCluster:
    """Running processes, by the name of their program. kubeconfig: of an administrator."""

    def __init__(self, folder: Path, programs: Path, ports: Mapping[str, int]) -> None:
        self.folder = folder
        self._programs = programs
        self._keys = ClusterKeys(folder / "keys")
        self._ports = ports
        self._processes: dict[str, BrokerProcess] = {}
        self.url = f"https://{LOOPBACK}:{ports[API_SERVER]}"
        self.kubeconfig = self._keys.kubeconfig("admin", self.url, self._keys.client("admin", "admin", MASTERS))
        self._server = self._keys.server(API_SERVER, [LOOPBACK, _FIRST_SERVICE, "localhost", "kubernetes.default.svc"])
        manager = self._keys.client("manager", "system:kube-controller-manager", MASTERS)
        self._manager_config = self._keys.kubeconfig("manager", self.url, manager)

    @property
    def environment(self) -> Mapping[str, str]:
        """What a client needs to be an administrator."""
        return {"KUBECONFIG": str(self.kubeconfig)}

    def connection(self) -> Connection:
        """A connection of an administrator, which the caller closes."""
        return open_connection({}, kubeconfig=self.kubeconfig)

    def kubeconfig_of(self, name: str, token: str) -> Path:
        """A kubeconfig of whoever has that token."""
        config = json.loads(self.kubeconfig.read_text())
        config["users"] = [{"name": "admin", "user": {"token": token}}]
        path = self.folder / f"{name}.kubeconfig"
        path.write_text(json.dumps(config))
        return path

    def start(self, program: str) -> None:
        """Starts one of its programs; does not wait until it answers."""
        command = {
            ETCD: self._etcd,
            API_SERVER: self._api_server,
            CONTROLLER_MANAGER: self._controller_manager,
        }[program]()
        self._processes[program] = start_leashed(
            [str(self._programs / program), *command],
            data=self.folder,
            log=self.folder / f"{program}.log",
            environment=os.environ,
        )

    def wait_ready(self) -> None:
        """Waits until the API server answers, and the controller manager has made the first service account."""
        accounts = Collection("v1", "serviceaccounts", "default")

        def is_ready() -> bool:
            for program, process in self._processes.items():
                assert process.is_alive(), (self.folder / f"{program}.log").read_text()[-2_000:]
            with suppress(HeadraceError):
                connection.get(accounts, "default", timeout_s=5)
                return True
            return False

        connection = self.connection()
        try:
            wait_until(is_ready, "a control plane")
        finally:
            connection.close()

    def kill(self, program: str) -> None:
        """Ends one as a crash does; what etcd has stored stays."""
        self._processes.pop(program).kill()

    @contextmanager
    def hung(self, program: str) -> Iterator[None]:
        """One of them answers nothing meanwhile, and keeps its connections."""
        pid = self._processes[program].pid
        os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            os.kill(pid, signal.SIGCONT)

    def end(self) -> None:
        """Kills all of them."""
        for process in self._processes.values():
            process.kill()
        self._processes.clear()

    def _etcd(self) -> Sequence[str]:
        client = f"http://{LOOPBACK}:{self._ports[ETCD]}"
        return (
            *("--data-dir", str(self.folder / "etcd"), "--unsafe-no-fsync", "--log-level", "warn"),
            *("--listen-client-urls", client, "--advertise-client-urls", client),
            *("--listen-peer-urls", f"http://{LOOPBACK}:{self._ports['peers']}"),
        )

    def _api_server(self) -> Sequence[str]:
        accounts = self._keys.accounts
        return (
            f"--etcd-servers=http://{LOOPBACK}:{self._ports[ETCD]}",
            f"--secure-port={self._ports[API_SERVER]}",
            f"--bind-address={LOOPBACK}",
            f"--tls-cert-file={self._server.certificate}",
            f"--tls-private-key-file={self._server.key}",
            f"--client-ca-file={self._keys.authority.certificate}",
            "--authorization-mode=RBAC",
            f"--service-account-key-file={accounts.certificate}",
            f"--service-account-signing-key-file={accounts.key}",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-cluster-ip-range={_SERVICES}",
            # it would publish an address on loopback, which it refuses
            "--endpoint-reconciler-type=none",
            f"--cert-dir={self.folder / API_SERVER}",
            "--profiling=false",
        )

    def _controller_manager(self) -> Sequence[str]:
        config = self._manager_config
        return (
            *(f"--kubeconfig={config}", f"--authentication-kubeconfig={config}"),
            f"--authorization-kubeconfig={config}",
            *(f"--bind-address={LOOPBACK}", f"--secure-port={self._ports[CONTROLLER_MANAGER]}"),
            "--leader-elect=false",
            # an account for each controller takes seconds to make
            "--use-service-account-credentials=false",
            f"--service-account-private-key-file={self._keys.accounts.key}",
            f"--root-ca-file={self._keys.authority.certificate}",
            f"--cert-dir={self.folder / CONTROLLER_MANAGER}",
            f"--flex-volume-plugin-dir={self.folder / 'volumes'}",
        )


@contextmanager
def control_cluster(folder: Path) -> Iterator[ControlCluster]:
    """One in `folder`, ready; it is gone at the end."""
    programs = kubernetes_binaries()
    with ExitStack() as held:
        names = (ETCD, "peers", API_SERVER, CONTROLLER_MANAGER)
        cluster = ControlCluster(folder, programs, {name: held.enter_context(reserved_port()) for name in names})
        held.callback(cluster.end)
        for program in (ETCD, API_SERVER, CONTROLLER_MANAGER):
            cluster.start(program)
        cluster.wait_ready()
        yield cluster
