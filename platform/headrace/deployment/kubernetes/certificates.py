"""The certificate of a cluster on Kubernetes, in Secrets. Blocking; may be repeated.

    Secret NAME-authority   ca.crt, ca.key: made once; no pod has it
    Secret NAME-tls         tls.crt, tls.key, ca.crt: mounted by all pods; issued again 30 days before its end

Pods read the files of a Secret that is replaced within a minute or so, and use them while jobs run. A Secret
NAME-tls of another program, such as cert-manager, is used unchanged.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from headrace.client.cluster_secret import server_name, tls_secret
from headrace.core.errors import UserError
from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster
from headrace.deployment.kubernetes.own_objects import OwnObjects
from headrace.kubernetes.connection import Connection
from headrace.kubernetes.documents import Collection, Document, text_at
from headrace.resources.kubernetes.worker_pod import COORDINATOR, labels_of
from headrace.tls.issuing import KeyPair, is_due, issued, new_authority

_FILES = ("tls.crt", "tls.key", "ca.crt")


def authority_secret(name: str) -> str:
    """The name of the Secret with the authority of a cluster."""
    return f"{name}-authority"


def certificate_names(name: str, namespace: str, control_service: str) -> tuple[str, ...]:
    """The names in the certificate of a cluster: its services, and this host for a port-forward."""
    return (server_name(name, namespace), f"{control_service}.{namespace}.svc", "localhost", "127.0.0.1")


class Certificates:
    """The certificates of clusters in one namespace. objects: of the cluster that all calls are about."""

    def __init__(self, objects: OwnObjects, cluster: str) -> None:
        self._objects = objects
        self._cluster = cluster

    def require_usable(self, connection: Connection, namespace: str) -> None:
        """Raises UserError for Secrets of another owner that cannot be used: a certificate without one of its files, or
        an authority."""
        secret = tls_secret(self._cluster)
        owner = self._objects.other_owner("Secret", secret)
        if not owner:
            self._objects.require_free([("Secret", authority_secret(self._cluster))])
            return
        found = connection.get(Collection("v1", "secrets", namespace), secret)
        missing = [name for name in _FILES if text_at(found, "data", name) is None]
        if missing:
            raise UserError(
                f"Secret {secret} belongs to {owner}, and has no {', '.join(missing)}",
                remedy="add what is missing, for it to be the cluster's certificate, or give the cluster another name",
            )

    def ensure(self, cluster: KubernetesCluster, names: tuple[str, ...]) -> None:
        """Issues the cluster's certificate, unless a valid one with all names exists, or one of another owner."""
        now, name = datetime.now(UTC), tls_secret(cluster.name)
        found = self._objects.find("Secret", name)
        if self._objects.other_owner("Secret", name) or (found is not None and not _is_due(found, names, now)):
            return
        authority = self._authority(cluster, now)
        pair = issued(authority, names, now)
        data = {"tls.crt": pair.certificate, "tls.key": pair.key, "ca.crt": authority.certificate}
        secret = _secret(cluster, name, "kubernetes.io/tls", data)
        if found is None:
            # one that comes first is another client's, by the same authority
            self._objects.create(secret)
        else:
            self._objects.patch("Secret", name, {"data": secret["data"]})

    def is_due(self, names: tuple[str, ...]) -> bool:
        """Whether `ensure` would issue the certificate anew. False for a cluster without one."""
        found = self._objects.find("Secret", tls_secret(self._cluster))
        return found is not None and _is_due(found, names, datetime.now(UTC))

    def own(self, owner: Mapping[str, Any]) -> None:
        """Has the Secrets deleted with an object. owner: a reference to it."""
        for name in (tls_secret(self._cluster), authority_secret(self._cluster)):
            self._objects.patch("Secret", name, {"metadata": {"ownerReferences": [dict(owner)]}})

    def delete(self) -> None:
        """Deletes the Secrets, except for those of another owner."""
        for name in (tls_secret(self._cluster), authority_secret(self._cluster)):
            self._objects.delete("Secret", name)

    def _authority(self, cluster: KubernetesCluster, now: datetime) -> KeyPair:
        made = new_authority(f"{cluster.name}.{cluster.namespace}", now)
        data = {"ca.crt": made.certificate, "ca.key": made.key}
        found = self._objects.create(_secret(cluster, authority_secret(cluster.name), "Opaque", data))
        return KeyPair(_text(found, "ca.crt") or "", _text(found, "ca.key") or "")


def _is_due(secret: Document, names: tuple[str, ...], now: datetime) -> bool:
    held = _text(secret, "tls.crt")
    return held is None or is_due(held, names, now)


def _text(secret: Document, field: str) -> str | None:
    found = text_at(secret, "data", field)
    return None if found is None else base64.b64decode(found).decode()


def _secret(cluster: KubernetesCluster, name: str, kind: str, data: Mapping[str, str]) -> dict[str, Any]:
    encoded = {field: base64.b64encode(text.encode()).decode() for field, text in data.items()}
    metadata = {"name": name, "labels": dict(labels_of(cluster.name, COORDINATOR))}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "type": kind, "data": encoded}
