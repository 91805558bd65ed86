"""What the containers and pods of a cluster have in common. Pure.

They pass the restricted Pod Security level: no root, no privileges, a read-only file system. What they write is in
volumes that end with the pod.
"""

from __future__ import annotations

from typing import Any

from headrace.deployment.kubernetes.cluster_spec import AttendantPods, ClusterSpec, CoordinatorPods, WorkerPods

HOME_FOLDER, SECRET_FOLDER = "/var/lib/headrace", "/etc/headrace/secret"
USER = 10001
Document = dict[str, Any]


def base_container(spec: ClusterSpec, name: str, size: CoordinatorPods | WorkerPods | AttendantPods) -> Document:
    """A container of our image. The pod's spec is `base_pod`, with the volume `secret`."""
    pull = {} if spec.image_pull_policy is None else {"imagePullPolicy": spec.image_pull_policy}
    environment = {"HEADRACE_HOME": HOME_FOLDER, "HOME": HOME_FOLDER, "PYTHONUNBUFFERED": "1", **spec.env}
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
        ],
    }


def base_pod(*containers: Document) -> Document:
    """The spec of a pod with these containers."""
    return {
        "containers": list(containers),
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [{"name": "home", "emptyDir": {}}, {"name": "temporary", "emptyDir": {}}],
    }
