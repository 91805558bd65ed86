"""The objects of a cluster on Kubernetes. Pure.

    Deployment NAME ── owns ──> the pods of coordinators, and those of workers, which coordinators make
    Service NAME              the REST API, at any coordinator: a standby sends clients to the leader
    Service NAME-control      the control plane for workers; headless, because only the leader listens
    ConfigMap NAME-headrace   what workers are made of: no secret is in it
    Secret NAME-headrace      the token and the ledger's key: made once, never replaced
    Secret NAME-tls           certificate, key and authority of its processes (`certificates`)
    Secret NAME-work          of a cluster of its own: what it serves

and those of `protections`. Where a user's own ConfigMap or Secret may well have the cluster's name, which is that of a
job, the name has an ending. `containers` has what all pods have in common.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from headrace.client.cluster_secret import credentials_secret, server_name
from headrace.deployment.kubernetes.attendant_pods import (
    CLOSER,
    account_volume,
    attendant_containers,
    ledger_of,
    secret_data,
    with_account,
    work_secret,
    work_volume,
)
from headrace.deployment.kubernetes.attendant_pods import CONTAINER as ATTENDANT_CONTAINER
from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster
from headrace.deployment.kubernetes.containers import SECRET_FOLDER, Document, base_container, base_pod
from headrace.deployment.kubernetes.pod_template import merged, without_container
from headrace.deployment.kubernetes.protections import protections
from headrace.leadership.lease_owner import OWNER_VARIABLE, OwnerOfLease
from headrace.resources.kubernetes.labels import COORDINATOR, WORKER, labels_of
from headrace.resources.kubernetes.worker_pod import CONTAINER as WORKER_CONTAINER
from headrace.resources.kubernetes.workers_file import OwnerName, WorkersFile
from headrace.tls.named_server import NAME_VARIABLE

REST_PORT, CONTROL_PORT = 8480, 8481
COORDINATOR_CONTAINER = "coordinator"
CONFIG_FOLDER = "/etc/headrace/config"
WORKERS_FILE = "workers.json"
COORDINATOR_GRACE_SECONDS, WORKER_GRACE_SECONDS = 60, 60
WORKER_DRAIN_SECONDS = 45
"""Part of a worker's grace time in which jobs move to other workers; in the rest its processes end."""
_DRAIN_VARIABLE = "HEADRACE_DRAIN"
_SECRET_FILES = {"token": 0o440, "key": 0o440}


def owned_documents(cluster: KubernetesCluster) -> tuple[Document, ...]:
    """What belongs to the cluster's Deployment."""
    shared = (config_map(cluster), *services(cluster), *protections(cluster))
    if cluster.work is None:
        return shared
    work = {**_object(cluster, "v1", "Secret", work_secret(cluster.name)), **secret_data(cluster.work)}
    return (*shared, work)


def config_name(name: str) -> str:
    """The name of the ConfigMap of a cluster."""
    return f"{name}-headrace"


def control_service(name: str) -> str:
    """The name of the Service of the control plane of a cluster."""
    return f"{name}-control"


def secret(cluster: KubernetesCluster, *, token: str, key: str) -> Document:
    """The cluster's secrets. token: of workers and clients; key: encrypts what is secret in the ledger."""
    document = _object(cluster, "v1", "Secret", credentials_secret(cluster.name))
    return {**document, "type": "Opaque", "stringData": {"token": f"{token}\n", "key": f"{key}\n"}}


def config_map(cluster: KubernetesCluster) -> Document:
    """What the coordinator makes its workers of."""
    owner = OwnerName("apps/v1", "Deployment", "deployments", cluster.name)
    workers = WorkersFile(cluster.name, cluster.namespace, owner, worker_template(cluster))
    data = {WORKERS_FILE: json.dumps(workers.document(), indent=1)}
    return {**_object(cluster, "v1", "ConfigMap", config_name(cluster.name)), "data": data}


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
    users: Mapping[str, Any] = cluster.spec.coordinator.pod_template
    # one description serves clusters with and without an attendant
    if cluster.work is None:
        users = without_container(users, ATTENDANT_CONTAINER)
    if cluster.work is None or not cluster.work.has_program:
        users = without_container(users, CLOSER)
    template = merged(_coordinator_template(cluster), users)
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
    container = base_container(cluster.spec, WORKER_CONTAINER, cluster.spec.workers)
    if _DRAIN_VARIABLE not in cluster.spec.env:
        container["env"] = [*container["env"], {"name": _DRAIN_VARIABLE, "value": f"{WORKER_DRAIN_SECONDS}s"}]
    spec = {
        **base_pod(cluster, WORKER, container),
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
        *("--ha", cluster.election, "--ledger", _ledger(cluster), "--key-file", f"{SECRET_FOLDER}/key"),
        *("--token-file", f"{SECRET_FOLDER}/token", "--advertise", "$(POD_IP)"),
        *("--resources", "kubernetes", "--workers-file", f"{CONFIG_FOLDER}/{WORKERS_FILE}"),
        *("--worker-address", worker_order_address(cluster), "--worker-slots", str(provisioning.slots)),
        *("--workers-min", str(provisioning.workers_min), "--workers-max", str(provisioning.workers_max)),
        *("--worker-idle", f"{provisioning.idle_ms}ms"),
    )
    probe = {"tcpSocket": {"port": "rest"}, "periodSeconds": 5, "timeoutSeconds": 5}
    container = {
        **base_container(cluster.spec, COORDINATOR_CONTAINER, cluster.spec.coordinator),
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
        # a standby dials the leader by its pod's address
        *([{"name": NAME_VARIABLE, "value": server_name(cluster.name, cluster.namespace)}] if cluster.spec.tls else []),
        {"name": OWNER_VARIABLE, "value": OwnerOfLease("apps/v1", "deployments", cluster.name).text},
    ]
    container["volumeMounts"] = [
        *container["volumeMounts"],
        {"name": "config", "mountPath": CONFIG_FOLDER, "readOnly": True},
    ]
    attendants = () if cluster.work is None else attendant_containers(cluster, cluster.work, REST_PORT)
    has_program = cluster.work is not None and cluster.work.has_program
    if has_program:
        container = with_account(container)
    spec = {
        **base_pod(cluster, COORDINATOR, container, *attendants),
        "serviceAccountName": cluster.spec.service_account,
        "enableServiceLinks": False,
        "terminationGracePeriodSeconds": COORDINATOR_GRACE_SECONDS,
    }
    config = {"name": "config", "configMap": {"name": config_name(cluster.name)}}
    work = [] if cluster.work is None else [work_volume(cluster)]
    spec["volumes"] = [*spec["volumes"], config, _secret_volume(cluster, "token", "key"), *work]
    if has_program:
        spec["automountServiceAccountToken"] = False
        spec["volumes"].append(account_volume())
    return {"metadata": {"labels": {}}, "spec": spec}


def _ledger(cluster: KubernetesCluster) -> str:
    return cluster.spec.ledger if cluster.work is None else ledger_of(cluster.spec, cluster.name)


def _secret_volume(cluster: KubernetesCluster, *files: str) -> Document:
    """The named files of the cluster's Secret: workers do not get the ledger's key."""
    items = [{"key": name, "path": name, "mode": _SECRET_FILES[name]} for name in files]
    return {"name": "secret", "secret": {"secretName": credentials_secret(cluster.name), "items": items}}


def _selector(cluster: KubernetesCluster) -> Mapping[str, str]:
    labels = labels_of(cluster.name, COORDINATOR)
    return {name: labels[name] for name in ("app.kubernetes.io/component", "headrace.dev/cluster")}


def _object(cluster: KubernetesCluster, api_version: str, kind: str, name: str) -> Document:
    metadata = {"name": name, "namespace": cluster.namespace, "labels": dict(labels_of(cluster.name, COORDINATOR))}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
