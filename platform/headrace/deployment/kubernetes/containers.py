"""What the containers and pods of a cluster have in common. Pure.

They pass the restricted Pod Security level: no root, no privileges, a read-only file system. What they write is in
volumes that end with the pod.
"""

from __future__ import annotations

from typing import Any

from headrace.client.cluster_secret import tls_secret
from headrace.deployment.kubernetes.cluster_spec import (
    AttendantPods,
    ClusterSpec,
    CoordinatorPods,
    KubernetesCluster,
    WorkerPods,
)
from headrace.tls.files import CA_VARIABLE, CERT_VARIABLE, KEY_VARIABLE

HOME_FOLDER, SECRET_FOLDER, TLS_FOLDER = "/var/lib/headrace", "/etc/headrace/secret", "/etc/headrace/tls"
USER = 10001
Document = dict[str, Any]
_TLS_VARIABLES = {
    CERT_VARIABLE: f"{TLS_FOLDER}/tls.crt",
    KEY_VARIABLE: f"{TLS_FOLDER}/tls.key",
    CA_VARIABLE: f"{TLS_FOLDER}/ca.crt",
}
_READ_BY_GROUP = 0o440


def base_container(spec: ClusterSpec, name: str, size: CoordinatorPods | WorkerPods | AttendantPods) -> Document:
    """A container of our image. The pod's spec is `base_pod`, with the volumes `secret` and, with TLS, `tls`."""
    pull = {} if spec.image_pull_policy is None else {"imagePullPolicy": spec.image_pull_policy}
    own = {"HEADRACE_HOME": HOME_FOLDER, "HOME": HOME_FOLDER, "PYTHONUNBUFFERED": "1"}
    environment = {**own, **(_TLS_VARIABLES if spec.tls else {}), **spec.env}
    tls = [{"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True}] if spec.tls else []
    return {
        "name": name,
        "image": spec.image,
        **pull,
        "env": [{"name": variable, "value": value} for variable, value in environment.items()],
        "resources": {
            "requests": {"cpu": size.cpu, "memory": size.memory},
            "limits": {"memory": size.memory},
        },
        # the last output of a process that fails is the reason that users see
        "terminationMessagePolicy": "FallbackToLogsOnError",
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "readOnlyRootFilesystem": True,
            "capabilities": {"drop": ["ALL"]},
        },
        "volumeMounts": [
            {"name": "home", "mountPath": HOME_FOLDER},
            {"name": "temporary", "mountPath": "/tmp"},
            {"name": "secret", "mountPath": SECRET_FOLDER, "readOnly": True},
            *tls,
        ],
    }


def base_pod(cluster: KubernetesCluster, *containers: Document) -> Document:
    """The spec of a pod with these containers."""
    # the files of a volume follow the Secret when that is renewed
    secret = {"secretName": tls_secret(cluster.name), "defaultMode": _READ_BY_GROUP}
    tls = [{"name": "tls", "secret": secret}] if cluster.spec.tls else []
    return {
        "containers": list(containers),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [{"name": "home", "emptyDir": {}}, {"name": "temporary", "emptyDir": {}}, *tls],
    }
