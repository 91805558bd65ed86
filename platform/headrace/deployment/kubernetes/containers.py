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
from headrace.kubernetes.ownership import CLUSTER_LABEL
from headrace.resources.kubernetes.labels import COMPONENT_LABEL
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
_STORAGE = "ephemeral-storage"


def base_container(spec: ClusterSpec, name: str, size: CoordinatorPods | WorkerPods | AttendantPods) -> Document:
    """A container of our image. The pod's spec is `base_pod`, with the volumes `secret` and, with TLS, `tls`."""
    pull = {} if spec.image_pull_policy is None else {"imagePullPolicy": spec.image_pull_policy}
    own = {"HEADRACE_HOME": HOME_FOLDER, "HOME": HOME_FOLDER, "PYTHONUNBUFFERED": "1"}
    environment = {**own, **(_TLS_VARIABLES if spec.tls else {}), **spec.env}
    tls = [{"name": "tls", "mountPath": TLS_FOLDER, "readOnly": True}] if spec.tls else []
    limits = {"memory": size.memory}
    if not isinstance(size, AttendantPods) and size.ephemeral_storage is not None:
        limits[_STORAGE] = size.ephemeral_storage
    return {
        "name": name,
        "image": spec.image,
        **pull,
        "env": [{"name": variable, "value": value} for variable, value in environment.items()],
        "resources": {
            "requests": {"cpu": size.cpu, **limits},
            "limits": limits,
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


def base_pod(cluster: KubernetesCluster, component: str, *containers: Document) -> Document:
    """The spec of a pod with these containers. The first one's limit of storage is that of the home folder, too."""
    # the files of a volume follow the Secret when that is renewed
    secret = {"secretName": tls_secret(cluster.name), "defaultMode": _READ_BY_GROUP}
    tls = [{"name": "tls", "secret": secret}] if cluster.spec.tls else []
    storage = containers[0]["resources"]["limits"].get(_STORAGE)
    home = {"name": "home", "emptyDir": {} if storage is None else {"sizeLimit": storage}}
    return {
        "containers": list(containers),
        # over nodes, where that is possible: the loss of one should not take all
        "topologySpreadConstraints": [
            {
                "maxSkew": 1,
                "topologyKey": "kubernetes.io/hostname",
                "whenUnsatisfiable": "ScheduleAnyway",
                "labelSelector": {"matchLabels": {CLUSTER_LABEL: cluster.name, COMPONENT_LABEL: component}},
            }
        ],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [home, {"name": "temporary", "emptyDir": {}}, *tls],
    }
