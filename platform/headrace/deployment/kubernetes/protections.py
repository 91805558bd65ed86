"""The protection of a cluster on Kubernetes against drained nodes and against other pods. Pure.

    PodDisruptionBudget NAME        a drain evicts one coordinator at a time
    NetworkPolicy NAME              coordinators: REST for clients, the control plane for workers of the cluster
    NetworkPolicy NAME-workers      workers: rows from workers of the cluster, nothing else

Workers have no budget: their pods belong to no controller, and for such pods a budget is a fixed number of pods that
stay, while the number of workers follows the jobs. The jobs of an evicted worker move to others first.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster
from headrace.kubernetes.ownership import CLUSTER_LABEL
from headrace.resources.kubernetes.worker_pod import COMPONENT_LABEL, COORDINATOR, WORKER, labels_of

BUDGET, POLICY = "PodDisruptionBudget", "NetworkPolicy"
CLIENT_LABEL = "headrace.dev/client"
"""Pods of the cluster's namespace that have it as `true` may use the REST API."""
OPERATOR = "operator"
"""The component of an operator's pods, which are clients of every cluster."""
_DNS_PORT = 53
Document = dict[str, Any]


def protections(cluster: KubernetesCluster) -> tuple[Document, ...]:
    """Returns the budget and the policies that the cluster's description asks for."""
    budgets = (_budget(cluster),) if cluster.spec.disruption_budget else ()
    policies = (_coordinator_policy(cluster), _worker_policy(cluster)) if cluster.spec.network_policy.enabled else ()
    return (*budgets, *policies)


def protection_names(name: str) -> tuple[tuple[str, str], ...]:
    """Returns kind and name of all objects that may protect the cluster of that name."""
    return ((BUDGET, name), (POLICY, name), (POLICY, _workers(name)))


def _budget(cluster: KubernetesCluster) -> Document:
    # a budget that keeps the only coordinator of a cluster would block every drain of its node
    spec = {"maxUnavailable": 1, "selector": _pods(cluster, COORDINATOR)}
    return {**_object(cluster, "policy/v1", BUDGET, cluster.name, COORDINATOR), "spec": spec}


def _coordinator_policy(cluster: KubernetesCluster) -> Document:
    rules = cluster.spec.network_policy
    operators = {"app.kubernetes.io/name": "headrace", COMPONENT_LABEL: OPERATOR}
    clients = [
        {"podSelector": {"matchLabels": {CLIENT_LABEL: "true"}}},
        # a standby may send a command of its pod to the leader
        {"podSelector": _pods(cluster, COORDINATOR)},
        {"namespaceSelector": {}, "podSelector": {"matchLabels": operators}},
        *rules.clients,
    ]
    ingress = [
        {"from": clients, "ports": [_tcp("rest")]},
        {"from": [{"podSelector": _pods(cluster, WORKER)}], "ports": [_tcp("control")]},
    ]
    return _policy(cluster, cluster.name, COORDINATOR, ingress)


def _worker_policy(cluster: KubernetesCluster) -> Document:
    # slots listen at ports that the system picks
    return _policy(cluster, _workers(cluster.name), WORKER, [{"from": [{"podSelector": _pods(cluster, WORKER)}]}])


def _policy(cluster: KubernetesCluster, name: str, component: str, ingress: Sequence[Document]) -> Document:
    spec: Document = {
        "podSelector": _pods(cluster, component),
        "policyTypes": ["Ingress"],
        "ingress": list(ingress),
    }
    if (egress := cluster.spec.network_policy.egress) is not None:
        spec["policyTypes"] = ["Ingress", "Egress"]
        spec["egress"] = [
            {"to": [{"podSelector": {"matchLabels": {CLUSTER_LABEL: cluster.name}}}]},
            # to any address, because a node's own cache of names is no pod
            {"ports": [_tcp(_DNS_PORT), {"protocol": "UDP", "port": _DNS_PORT}]},
            *egress,
        ]
    return {**_object(cluster, "networking.k8s.io/v1", POLICY, name, component), "spec": spec}


def _tcp(port: str | int) -> Document:
    return {"protocol": "TCP", "port": port}


def _pods(cluster: KubernetesCluster, component: str) -> Document:
    return {"matchLabels": {CLUSTER_LABEL: cluster.name, COMPONENT_LABEL: component}}


def _workers(name: str) -> str:
    return f"{name}-workers"


def _object(cluster: KubernetesCluster, api_version: str, kind: str, name: str, component: str) -> Document:
    metadata = {"name": name, "namespace": cluster.namespace, "labels": dict(labels_of(cluster.name, component))}
    return {"apiVersion": api_version, "kind": kind, "metadata": metadata}
