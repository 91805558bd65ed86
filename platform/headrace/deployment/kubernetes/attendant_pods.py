"""The attendant beside each coordinator of a cluster that serves one job or application, and what it needs. Pure.

    Secret NAME-work   the job, or the program; it belongs to the cluster's Deployment

The attendant deletes the Deployment when its work has ended, and with it everything that belongs to the cluster. One
that runs a program has neither an account of Kubernetes nor the ledger's key: the program is the user's. Another
container, the closer, deletes the Deployment then.
"""

from __future__ import annotations

import base64

from headrace.client.cluster_secret import server_name
from headrace.deployment.kubernetes.cluster_spec import AttendantPods, ClusterSpec, KubernetesCluster
from headrace.deployment.kubernetes.containers import SECRET_FOLDER, Document, base_container
from headrace.deployment.kubernetes.work import WORK_FOLDER, Work
from headrace.tls.named_server import NAME_VARIABLE

CONTAINER, CLOSER = "attendant", "closer"
_CLOSER_CPU, _CLOSER_MEMORY = "50m", "256Mi"
_ACCOUNT, _ACCOUNT_FOLDER = "account", "/var/run/secrets/kubernetes.io/serviceaccount"
_TOKEN_SECONDS = 3_607
"""As of the tokens that Kubernetes mounts; the kubelet replaces them in time."""


def work_secret(name: str) -> str:
    """The name of the Secret with the work of a cluster."""
    return f"{name}-work"


def secret_data(work: Work) -> Document:
    """The fields of that Secret."""
    return {
        "type": "Opaque",
        "data": {name: base64.b64encode(content).decode() for name, content in work.files.items()},
    }


def attendant_containers(cluster: KubernetesCluster, work: Work, rest_port: int) -> tuple[Document, ...]:
    """The containers; their pod has the volume of `work_volume`, and the first of them no account if there are two."""
    container = base_container(cluster.spec, CONTAINER, cluster.spec.attendant)
    scheme = "https" if cluster.spec.tls else "http"
    common = (
        *("attend", "--election", cluster.election, "--coordinator", f"{scheme}://127.0.0.1:{rest_port}"),
        *("--token-file", f"{SECRET_FOLDER}/token", "--linger", f"{cluster.spec.after_end_ms}ms"),
    )
    deployment = ("--deployment", cluster.name)
    # the leader is dialled by its pod's address
    named = {"name": NAME_VARIABLE, "value": server_name(cluster.name, cluster.namespace)}
    container["env"] = [*container["env"], named]
    own = {"name": "work", "mountPath": WORK_FOLDER, "readOnly": True}
    attendant = {**container, "volumeMounts": [*container["volumeMounts"], own]}
    if not work.has_program:
        return ({**attendant, "args": [*common, *deployment, *work.arguments]},)
    attendant["volumeMounts"] = [_token_only(each) for each in attendant["volumeMounts"]]
    small = AttendantPods(cpu=_CLOSER_CPU, memory=_CLOSER_MEMORY)
    closer = {**base_container(cluster.spec, CLOSER, small), "args": [*common, *deployment, "--application"]}
    closer["env"] = [*closer["env"], named]
    return {**attendant, "args": [*common, *work.arguments]}, with_account(closer)


def _token_only(mount: Document) -> Document:
    """The mount of the cluster's Secret without the ledger's key; another mount as it is."""
    if mount["name"] != "secret":
        return mount
    return {**mount, "mountPath": f"{mount['mountPath']}/token", "subPath": "token"}


def with_account(container: Document) -> Document:
    """The container with the token of the pod's account, in a pod with `account_volume`."""
    mount = {"name": _ACCOUNT, "mountPath": _ACCOUNT_FOLDER, "readOnly": True}
    return {**container, "volumeMounts": [*container["volumeMounts"], mount]}


def account_volume() -> Document:
    """What Kubernetes mounts into every container of a pod by itself: here only where it is mounted. A program of the
    user must not have the rights of coordinators."""
    sources: list[Document] = [
        {"serviceAccountToken": {"path": "token", "expirationSeconds": _TOKEN_SECONDS}},
        {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
        {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": {"fieldPath": "metadata.namespace"}}]}},
    ]
    return {"name": _ACCOUNT, "projected": {"sources": sources, "defaultMode": 0o440}}


def work_volume(cluster: KubernetesCluster) -> Document:
    """The volume of the work's files."""
    return {"name": "work", "secret": {"secretName": work_secret(cluster.name), "defaultMode": 0o440}}


def ledger_of(spec: ClusterSpec, name: str) -> str:
    """The ledger of a cluster of its own: a folder in the described one, so that one description serves many."""
    return f"{spec.ledger.rstrip('/')}/{name}"
