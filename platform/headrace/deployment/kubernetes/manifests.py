"""The objects of a cluster on Kubernetes. Pure.

    Deployment NAME ── owns ──> the pods of coordinators, and those of workers, which coordinators make
    Service NAME              the REST API, at any coordinator: a standby sends clients to the leader
    Service NAME-control      the control plane for workers; headless, because only the leader listens
    ConfigMap NAME-headrace   the template of workers: no secret is in it
    Secret NAME-headrace      the token and the ledger's key: made once, never replaced
    Secret NAME-tls           certificate, key and authority of its processes (`deployer`)
    Secret NAME-work          of a cluster that serves one job or application: that work

and those of `protections`. A user's own ConfigMap or Secret may have the cluster's name, which is that of a job, so
these names have an ending.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from typing import Any

from headrace.client.cluster_secret import credentials_secret, server_name, tls_secret
from headrace.deployment.kubernetes.cluster_spec import (
    AttendantPods,
    ClusterSpec,
    CoordinatorPods,
    KubernetesCluster,
    WorkerPods,
)
from headrace.deployment.kubernetes.pod_template import merged, without_container
from headrace.deployment.kubernetes.protections import protections
from headrace.deployment.kubernetes.work import WORK_FOLDER, Work
from headrace.kubernetes.ownership import CLUSTER_LABEL
from headrace.leadership.lease_record import OWNER_VARIABLE, OwnerOfLease
from headrace.resources.kubernetes.worker_pod import COMPONENT_LABEL, COORDINATOR, WORKER, labels_of
from headrace.resources.kubernetes.worker_pod import CONTAINER as WORKER_CONTAINER
from headrace.resources.kubernetes.worker_pods import OwnerName, WorkersFile
from headrace.tls.files import CA_VARIABLE, CERT_VARIABLE, KEY_VARIABLE, NAME_VARIABLE

# ---- containers ------------------------------------------------------------------------------------------------------
#
# They pass the restricted Pod Security level: no root, no privileges, a read-only file system. They write to volumes
# that end with the pod.

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


# ---- attendants ------------------------------------------------------------------------------------------------------
#
# An attendant runs beside each coordinator of a cluster that serves one job or application. The Secret NAME-work holds
# the job or the program; it belongs to the cluster's Deployment. The attendant deletes the Deployment when its work has
# ended, and Kubernetes deletes everything that belongs to it. An attendant that runs a program has neither an account
# of Kubernetes nor the ledger's key, because the program is the user's: another container, the closer, deletes the
# Deployment.

ATTENDANT_CONTAINER, CLOSER = "attendant", "closer"
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
    container = base_container(cluster.spec, ATTENDANT_CONTAINER, cluster.spec.attendant)
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
    """The account's token, which Kubernetes otherwise mounts into every container of a pod. A program of the user must
    not have the rights of coordinators."""
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
    """The objects that belong to the cluster's Deployment."""
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
    """The file from which the coordinator creates its workers."""
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
