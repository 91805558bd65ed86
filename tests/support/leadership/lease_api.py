"""A real API server whose Leases elect leaders: hung, killed, and asked with few rights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from headrace.core.errors import ExternalError
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection, text_at
from headrace.kubernetes.transport import Request
from headrace.leadership.lease_record import API, PLURAL, LeaseRecord
from support.kubernetes.control.cluster import API_SERVER, ControlCluster, control_cluster
from support.patience import WAIT_SECONDS
from support.processes.running import wait_until

NAMESPACE = "default"
LEASES = Collection(API, PLURAL, NAMESPACE)
_ACCOUNTS = Collection("v1", "serviceaccounts", NAMESPACE)
_RBAC = "rbac.authorization.k8s.io"


class LeaseApi:
    """The API server of a cluster. environment: gives candidates all rights."""

    def __init__(self, folder: Path, cluster: ControlCluster, connection: Connection) -> None:
        self._folder = folder
        self._cluster = cluster
        self.environment: Mapping[str, str] = cluster.environment
        self.connection = connection

    def lease(self, name: str) -> LeaseRecord:
        """The Lease as it is now."""
        return LeaseRecord.of(self.connection.get(LEASES, name))

    def allow(self, account: str, verbs: Sequence[str]) -> Mapping[str, str]:
        """The environment of a new service account that has these rights to Leases."""
        self.connection.create(_ACCOUNTS, {"metadata": {"name": account}})
        self.connection.create(
            Collection(f"{_RBAC}/v1", "roles", NAMESPACE),
            {
                "metadata": {"name": account},
                "rules": [{"apiGroups": ["coordination.k8s.io"], "resources": ["leases"], "verbs": list(verbs)}],
            },
        )
        self.connection.create(
            Collection(f"{_RBAC}/v1", "rolebindings", NAMESPACE),
            {
                "metadata": {"name": account},
                "roleRef": {"apiGroup": _RBAC, "kind": "Role", "name": account},
                "subjects": [{"kind": "ServiceAccount", "name": account, "namespace": NAMESPACE}],
            },
        )
        path = self._cluster.kubeconfig_of(self.token(account), self._folder / f"{account}.kubeconfig")
        return {"KUBECONFIG": str(path)}

    def token(self, account: str) -> str:
        """A token of a service account."""
        request = Request("POST", _ACCOUNTS.path(account, "token"), {}, {"spec": {"expirationSeconds": 3_600}})
        token = text_at(self.connection._transport.send(request, WAIT_SECONDS).content, "status", "token")
        assert token is not None
        return token

    def authority(self) -> str:
        """The certificate of the authority that has signed the server's, as every pod has it mounted."""
        roots = Collection("v1", "configmaps", NAMESPACE)
        certificate = text_at(self.connection.get(roots, "kube-root-ca.crt"), "data", "ca.crt")
        assert certificate is not None
        return certificate

    def hung(self) -> AbstractContextManager[None]:
        """The server answers nothing meanwhile, and keeps its connections."""
        return self._cluster.hung(API_SERVER)

    def kill(self) -> None:
        """Kills the server; what it has stored stays."""
        self._cluster.kill(API_SERVER)

    def respawn(self) -> None:
        """Starts it again, and waits until it answers."""
        self._cluster.start(API_SERVER)
        wait_until(self._answers, "the API server")

    def _answers(self) -> bool:
        try:
            self.connection.list(LEASES)
        except ExternalError:
            return False
        return True


@contextmanager
def lease_api(folder: Path) -> Iterator[LeaseApi]:
    """One with an etcd of its own, ended at the end."""
    with control_cluster(folder / "cluster") as cluster:
        connection = cluster.connection()
        try:
            yield LeaseApi(folder, cluster, connection)
        finally:
            connection.close()


def lease_name(folder: Path) -> str:
    """A name for a Lease, after the folder of a test."""
    return folder.name.lower().replace("_", "-").strip("-")
