"""The objects of a cluster on Kubernetes. Pure.

    Deployment NAME ── owns ──> the pods of coordinators, and those of workers, which coordinators make
    Service NAME              the REST API, at any coordinator: a standby sends clients to the leader
    Service NAME-control      the control plane for workers; headless, because only the leader listens
    ConfigMap NAME            what workers are made of: no secret is in it
    Secret NAME               the token and the ledger's key: made once, never replaced

and those of `protections`.

Containers pass the restricted Pod Security level: no root, no privileges, a read-only file system. What they write is
in volumes that end with the pod.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.deployment.kubernetes.cluster_spec import CoordinatorPods, KubernetesCluster, WorkerPods
from headrace.deployment.kubernetes.pod_template import merged
from headrace.deployment.kubernetes.protections import protections
from headrace.resources.kubernetes.labels import COORDINATOR, labels_of
from headrace.resources.kubernetes.worker_pod import CONTAINER as WORKER_CONTAINER
from headrace.resources.kubernetes.workers_file import OwnerName, WorkersFile

REST_PORT, CONTROL_PORT = 8480, 8481
COORDINATOR_CONTAINER = "coordinator"
CONFIG_FOLDER, SECRET_FOLDER, HOME_FOLDER = "/etc/headrace/config", "/etc/headrace/secret", "/var/lib/headrace"
WORKERS_FILE = "workers.json"
COORDINATOR_GRACE_SECONDS, WORKER_GRACE_SECONDS = 60, 60
USER = 10001
_SECRET_FILES = {"token": 0o440, "key": 0o440}
Document = dict[str, Any]


def owned_documents(cluster: KubernetesCluster) -> tuple[Document, ...]:
    """What belongs to the cluster's Deployment."""
    return (config_map(cluster), *services(cluster), *protections(cluster))


def control_service(name: str) -> str:
    """The name of the Service of the control plane of a cluster."""
    return f"{name}-control"


def secret(cluster: KubernetesCluster, *, token: str, key: str) -> Document:
    """The cluster's secrets. token: of workers and clients; key: encrypts what is secret in the ledger."""
    document = _object(cluster, "v1", "Secret", cluster.name)
    return {**document, "type": "Opaque", "stringData": {"token": f"{token}\n", "key": f"{key}\n"}}


def config_map(cluster: KubernetesCluster) -> Document:
    """What the coordinator makes its workers of."""
    owner = OwnerName("apps/v1", "Deployment", "deployments", cluster.name)
    workers = WorkersFile(cluster.name, cluster.namespace, owner, worker_template(cluster))
    data = {WORKERS_FILE: json.dumps(workers.document(), indent=1)}
    return {**_object(cluster, "v1", "ConfigMap", cluster.name), "data": data}


def services(cluster: KubernetesCluster) -> tuple[Document, Document]:
    """The services of REST and of the control plane."""
    selector = dict(_selector(cluster))
    rest = {"name": "rest", "port": REST_PORT, "targetPort": "rest"}
    control = {"name": "control", "port": CONTROL_PORT, "targetPort": "control"}
    return (
        {**_object(cluster, "v1", "Service", cluster.name), "spec": {"selector": selector, "ports": [rest]}},
        {
            **_object(cluster, "v1", "Service", control_service(cluster.name)),
            "spec": {"clusterIP": "None", "selector": selector, "ports": [control]},
        },
    )


def deployment(cluster: KubernetesCluster) -> Document:
    """The coordinators."""
    template = merged(_coordinator_template(cluster), cluster.spec.coordinator.pod_template)
    template["metadata"]["labels"] = {**template["metadata"]["labels"], **labels_of(cluster.name, COORDINATOR)}
    spec = {
        "replicas": cluster.spec.coordinator.replicas,
        # the new ones are standbys until an old one ends, so the cluster is never without a candidate
        "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 0, "maxSurge": 1}},
        "selector": {"matchLabels": dict(_selector(cluster))},
        "template": template,
    }
    return {**_object(cluster, "apps/v1", "Deployment", cluster.name), "spec": spec}


def worker_template(cluster: KubernetesCluster) -> Document:
    """The pod template of workers; a pod is made of it by `resources.kubernetes.worker_pod`."""
    container = _container(cluster, WORKER_CONTAINER, cluster.spec.workers)
    spec = {
        **_pod_spec(container),
        "automountServiceAccountToken": False,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": WORKER_GRACE_SECONDS,
    }
    spec["volumes"] = [*spec["volumes"], _secret_volume(cluster, "token")]
    return merged({"metadata": {"labels": {}}, "spec": spec}, cluster.spec.workers.pod_template)


def worker_order_address(cluster: KubernetesCluster) -> str:
    """The control plane's address for workers: the leader is the only one that listens there."""
    return f"{control_service(cluster.name)}.{cluster.namespace}.svc:{CONTROL_PORT}"


def _coordinator_template(cluster: KubernetesCluster) -> Document:
    provisioning = cluster.spec.workers.provisioning
    arguments = (
        *("coordinator", "--host", "0.0.0.0", "--port", str(REST_PORT), "--grpc-port", str(CONTROL_PORT)),
        *("--ha", cluster.election, "--ledger", cluster.spec.ledger, "--key-file", f"{SECRET_FOLDER}/key"),
        *("--token-file", f"{SECRET_FOLDER}/token", "--advertise", "$(POD_IP)"),
        *("--resources", "kubernetes", "--workers-file", f"{CONFIG_FOLDER}/{WORKERS_FILE}"),
        *("--worker-address", worker_order_address(cluster), "--worker-slots", str(provisioning.slots)),
        *("--workers-min", str(provisioning.workers_min), "--workers-max", str(provisioning.workers_max)),
        *("--worker-idle", f"{provisioning.idle_ms}ms"),
    )
    probe = {"tcpSocket": {"port": "rest"}, "periodSeconds": 5, "timeoutSeconds": 5}
    container = {
        **_container(cluster, COORDINATOR_CONTAINER, cluster.spec.coordinator),
        "args": list(arguments),
        "ports": [
            {"name": "rest", "containerPort": REST_PORT},
            {"name": "control", "containerPort": CONTROL_PORT},
        ],
        "startupProbe": {**probe, "periodSeconds": 1, "failureThreshold": 120},
        "readinessProbe": probe,
        "livenessProbe": {**probe, "periodSeconds": 10, "failureThreshold": 6},
    }
    container["env"] = [
        *container["env"],
        {"name": "POD_IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
    ]
    container["volumeMounts"] = [
        *container["volumeMounts"],
        {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
    ]
    spec = {
        **_pod_spec(container),
        "serviceAccountName": cluster.spec.service_account,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": COORDINATOR_GRACE_SECONDS,
    }
    config = {"name": "config", "configMap": {"name": cluster.name}}
    spec["volumes"] = [*spec["volumes"], config, _secret_volume(cluster, "token", "key")]
    return {"metadata": {"labels": {}}, "spec": spec}


def _container(cluster: KubernetesCluster, name: str, size: CoordinatorPods | WorkerPods) -> Document:
    spec = cluster.spec
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


def _pod_spec(container: Document) -> Document:
    return {
        "containers": [container],
        "securityContext": {
            "runAsNonRoot": True,
            "runAsUser": USER,
            "runAsGroup": USER,
            "fsGroup": USER,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "volumes": [{"name": "home", "emptyDir": {}}, {"name": "temporary", "emptyDir": {}}],
    }


def _secret_volume(cluster: KubernetesCluster, *files: str) -> Document:
    """The named files of the cluster's Secret: workers do not get the ledger's key."""
    items = [{"key": name, "path": name, "mode": _SECRET_FILES[name]} for name in files]
    return {"name": "secret", "secret": {"secretName": cluster.name, "items": items}}


def _selector(cluster: KubernetesCluster) -> Mapping[str, str]:
    labels = labels_of(cluster.name, COORDINATOR)
    return {name: labels[name] for name in ("app.kubernetes.io/component", "headrace.dev/cluster")}


def _object(cluster: KubernetesCluster, api_version: str, kind: str, name: str) -> Document:
    metadata = {"name": name, "namespace": cluster.namespace, "labels": dict(labels_of(cluster.name, COORDINATOR))}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
