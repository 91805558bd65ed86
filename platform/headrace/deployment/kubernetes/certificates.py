"""The certificate of a cluster on Kubernetes, in Secrets. Blocking; may be repeated.

    Secret NAME-authority   ca.crt, ca.key: made once; no pod has it
    Secret NAME-tls         tls.crt, tls.key, ca.crt: mounted by all pods; issued again 30 days before its end

Pods read the files of a Secret that is replaced within a minute or so, and take them over while jobs run. A Secret
NAME-tls that somebody else has made, such as cert-manager, is used as it is.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.client.cluster_secret import server_name, tls_secret
from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster
from headrace.kubernetes.collection import Collection
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Document, metadata_of, text_at
from headrace.kubernetes.refusals import AlreadyExistsError, NotFoundError
from headrace.resources.kubernetes.labels import CLUSTER_LABEL, COORDINATOR, labels_of
from headrace.tls.issuing import KeyPair, is_due, issued, new_authority


def authority_secret(name: str) -> str:
    """The name of the Secret with the authority of a cluster."""
    return f"{name}-authority"


def certificate_names(name: str, namespace: str, control_service: str) -> tuple[str, ...]:
    """What the certificate of a cluster is good for: its services, and a port-forward to this host."""
    return (server_name(name, namespace), f"{control_service}.{namespace}.svc", "localhost", "127.0.0.1")


class Certificates:
    """The certificates of clusters in one namespace."""

    def __init__(self, connection: Connection, namespace: str) -> None:
        self._connection = connection
        self._secrets = Collection("v1", "secrets", namespace)

    def ensure(self, cluster: KubernetesCluster, names: tuple[str, ...]) -> None:
        """Issues the cluster's certificate, unless one is there that lasts and is good for all names."""
        now = datetime.now(UTC)
        found = self._get(tls_secret(cluster.name))
        if found is not None and not _is_due(found, cluster.name, names, now):
            return
        authority = self._authority(cluster, now)
        pair = issued(authority, names, now)
        data = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
        secret = _secret(cluster, tls_secret(cluster.name), "kubernetes.io/tls", data)
        if found is None:
            try:
                self._connection.create(self._secrets, secret)
            except AlreadyExistsError:
                return  # another client's, by the same authority
        else:
            self._connection.patch(self._secrets, tls_secret(cluster.name), {"data": secret["data"]})

    def is_due(self, name: str, names: tuple[str, ...]) -> bool:
        """Whether `ensure` would issue the certificate of a cluster anew. False for a cluster without one."""
        found = self._get(tls_secret(name))
        return found is not None and _is_due(found, name, names, datetime.now(UTC))

    def own(self, cluster: KubernetesCluster, owner: Mapping[str, Any]) -> None:
        """Has the Secrets deleted with an object. owner: a reference to it."""
        for name in (tls_secret(cluster.name), authority_secret(cluster.name)):
            found = self._get(name)
            if found is not None and _is_ours(found, cluster.name):
                self._connection.patch(self._secrets, name, {"metadata": {"ownerReferences": [dict(owner)]}})

    def delete(self, name: str) -> None:
        """Deletes the Secrets of the cluster of that name, but for those of somebody else."""
        for secret in (tls_secret(name), authority_secret(name)):
            found = self._get(secret)
            if found is not None and _is_ours(found, name):
                self._connection.delete(self._secrets, secret, uid=metadata_of(found).uid)

    def _authority(self, cluster: KubernetesCluster, now: datetime) -> KeyPair:
        name = authority_secret(cluster.name)
        made = new_authority(f"{cluster.name}.{cluster.namespace}", now)
        document = _secret(cluster, name, "Opaque", {"ca.crt": made.certificate, "ca.key": made.key})
        try:
            self._connection.create(self._secrets, document)
        except AlreadyExistsError:
            found = self._connection.get(self._secrets, name)
            return KeyPair(_text(found, "ca.crt") or "", _text(found, "ca.key") or "")
        return made

    def _get(self, name: str) -> Document | None:
        try:
            return self._connection.get(self._secrets, name)
        except NotFoundError:
            return None


def _is_ours(secret: Document, name: str) -> bool:
    return metadata_of(secret).labels.get(CLUSTER_LABEL) == name


def _is_due(secret: Document, name: str, names: tuple[str, ...], now: datetime) -> bool:
    held = _text(secret, "tls.crt")
    return _is_ours(secret, name) and (held is None or is_due(held, names, now))


def _text(secret: Document, field: str) -> str | None:
    found = text_at(secret, "data", field)
    return None if found is None else base64.b64decode(found).decode()


def _secret(cluster: KubernetesCluster, name: str, kind: str, data: Mapping[str, str]) -> dict[str, Any]:
    encoded = {field: base64.b64encode(text.encode()).decode() for field, text in data.items()}
    metadata = {"name": name, "labels": dict(labels_of(cluster.name, COORDINATOR))}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": encoded}
