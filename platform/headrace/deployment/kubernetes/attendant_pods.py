"""The attendant beside each coordinator of a cluster that serves one job or application, and what it needs. Pure.

    Secret NAME-work   the job, or the program; it belongs to the cluster's Deployment

The attendant deletes the Deployment when its work has ended, and with it everything that belongs to the cluster.
"""

from __future__ import annotations

import base64

from headrace.client.cluster_secret import server_name
from headrace.deployment.kubernetes.cluster_spec import ClusterSpec, KubernetesCluster
from headrace.deployment.kubernetes.containers import SECRET_FOLDER, Document, base_container
from headrace.deployment.kubernetes.work import WORK_FOLDER, Work
from headrace.tls.named_server import NAME_VARIABLE

CONTAINER = "attendant"


def work_secret(name: str) -> str:
    """The name of the Secret with the work of a cluster."""
    return f"{name}-work"


def secret_data(work: Work) -> Document:
    """The fields of that Secret."""
    return {
        "type": "Opaque",
        "data": {name: base64.b64encode(content).decode() for name, content in work.files.items()},
    }


def attendant_container(cluster: KubernetesCluster, work: Work, rest_port: int) -> Document:
    """The container; its pod has the volume of `work_volume`."""
    container = base_container(cluster.spec, CONTAINER, cluster.spec.attendant)
    scheme = "https" if cluster.spec.tls else "http"
    arguments = (
        *("attend", "--election", cluster.election, "--coordinator", f"{scheme}://127.0.0.1:{rest_port}"),
        *("--token-file", f"{SECRET_FOLDER}/token", "--deployment", cluster.name),
        *("--linger", f"{cluster.spec.after_end_ms}ms", *work.arguments),
    )
    mounts = [*container["volumeMounts"], {"name": "work", "mountPath": WORK_FOLDER, "readOnly": True}]
    # the leader is dialled by its pod's address
    named = {"name": NAME_VARIABLE, "value": server_name(cluster.name, cluster.namespace)}
    return {**container, "args": list(arguments), "volumeMounts": mounts, "env": [*container["env"], named]}


def work_volume(cluster: KubernetesCluster) -> Document:
    """The volume of the work's files."""
    return {"name": "work", "secret": {"secretName": work_secret(cluster.name), "defaultMode": 0o440}}


def ledger_of(spec: ClusterSpec, name: str) -> str:
    """The ledger of a cluster of its own: a folder in the described one, so that one description serves many."""
    return f"{spec.ledger.rstrip('/')}/{name}"
