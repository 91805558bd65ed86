"""Who may connect to whom by the policies of a cluster, and what a drain may evict. No network enforces them here."""

from __future__ import annotations

from typing import Any

import pytest

from headrace.deployment.kubernetes.cluster_file import cluster_spec
from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster
from headrace.deployment.kubernetes.manifests import CONTROL_PORT, REST_PORT, deployment, worker_template
from headrace.deployment.kubernetes.protections import protection_names, protections
from headrace.resources.kubernetes.worker_pod import worker_pod
from support.kubernetes.documents.policy_rules import PeerPod, is_allowed

ROWS = 41_234
"""A port of a slot, which the system has picked."""
KAFKA = PeerPod({"app": "kafka"}, namespace="kafka", namespace_labels={"team": "kafka"})
STRANGER, CLIENT = PeerPod({"app": "x"}), PeerPod({"headrace.dev/client": "true"})


def cluster_of(name: str = "flights", **policy: Any) -> KubernetesCluster:
    document = {"image": "i", "ledger": "s3://b", "networkPolicy": {"enabled": True, **policy}}
    return KubernetesCluster(name, "data", cluster_spec(document, "cluster.yaml"))


def coordinator(cluster: KubernetesCluster) -> PeerPod:
    template = deployment(cluster)["spec"]["template"]
    ports = template["spec"]["containers"][0]["ports"]
    return PeerPod(template["metadata"]["labels"], ports={each["name"]: each["containerPort"] for each in ports})


def worker(cluster: KubernetesCluster) -> PeerPod:
    pod = worker_pod(worker_template(cluster), "flights-w1-1", [], cluster=cluster.name, term=1, owner=None)
    return PeerPod(pod["metadata"]["labels"])


CLUSTER, OTHER = cluster_of(), cluster_of("trains")
POLICIES = tuple(each for each in protections(CLUSTER) if each["kind"] == "NetworkPolicy")


def allowed(source: PeerPod, target: PeerPod, port: int) -> bool:
    return is_allowed(POLICIES, source, target, port)


def test_workers_reach_the_control_plane_and_each_other() -> None:
    assert allowed(worker(CLUSTER), coordinator(CLUSTER), CONTROL_PORT)
    assert allowed(worker(CLUSTER), worker(CLUSTER), ROWS)
    assert not allowed(worker(CLUSTER), coordinator(CLUSTER), REST_PORT)


@pytest.mark.parametrize("pod", [STRANGER, CLIENT, KAFKA, worker(OTHER), coordinator(OTHER)])
def test_nobody_else_reaches_the_control_plane_or_a_worker(pod: PeerPod) -> None:
    assert not allowed(pod, coordinator(CLUSTER), CONTROL_PORT)
    assert not allowed(pod, worker(CLUSTER), ROWS)


def test_clients_are_pods_with_a_label_coordinators_and_operators_anywhere() -> None:
    operator = PeerPod(
        {"app.kubernetes.io/name": "headrace", "app.kubernetes.io/component": "operator"}, namespace="elsewhere"
    )
    target = coordinator(CLUSTER)
    assert all(allowed(pod, target, REST_PORT) for pod in (CLIENT, coordinator(CLUSTER), operator))
    far = PeerPod(CLIENT.labels, namespace="elsewhere")
    assert not any(allowed(pod, target, REST_PORT) for pod in (STRANGER, KAFKA, worker(OTHER), far))


def test_further_clients_are_peers_of_the_description() -> None:
    cluster = cluster_of(clients=[{"namespaceSelector": {"matchLabels": {"team": "kafka"}}}])
    policies = [each for each in protections(cluster) if each["kind"] == "NetworkPolicy"]
    assert is_allowed(policies, KAFKA, coordinator(cluster), REST_PORT)
    assert not is_allowed(policies, KAFKA, coordinator(cluster), CONTROL_PORT)
    assert is_allowed(policies, CLIENT, coordinator(cluster), REST_PORT)


def test_everything_outside_is_reached_unless_rules_name_what() -> None:
    assert all(allowed(pod(CLUSTER), KAFKA, 9_092) for pod in (worker, coordinator))
    rule = {"to": [{"namespaceSelector": {"matchLabels": {"team": "kafka"}}}], "ports": [{"port": 9_092}]}
    cluster = cluster_of(egress=[rule])
    policies = [each for each in protections(cluster) if each["kind"] == "NetworkPolicy"]
    for source in (worker(cluster), coordinator(cluster)):
        assert is_allowed(policies, source, KAFKA, 9_092)
        assert not is_allowed(policies, source, KAFKA, 22)
        assert not is_allowed(policies, source, STRANGER, 9_092)
        assert is_allowed(policies, source, STRANGER, 53), "names are resolved by any pod or address"
    assert is_allowed(policies, worker(cluster), coordinator(cluster), CONTROL_PORT)
    assert is_allowed(policies, worker(cluster), worker(cluster), ROWS)


def test_a_drain_evicts_one_coordinator_at_a_time_and_never_blocks() -> None:
    (budget,) = (each for each in protections(CLUSTER) if each["kind"] == "PodDisruptionBudget")
    assert budget["spec"]["maxUnavailable"] == 1
    selected = budget["spec"]["selector"]["matchLabels"].items()
    assert selected <= coordinator(CLUSTER).labels.items()
    assert not any(selected <= pod.labels.items() for pod in (worker(CLUSTER), coordinator(OTHER)))


@pytest.mark.parametrize(
    ("fields", "kinds"),
    [
        ({}, ["PodDisruptionBudget"]),
        ({"disruptionBudget": False}, []),
        ({"networkPolicy": {"enabled": True}}, ["PodDisruptionBudget", "NetworkPolicy", "NetworkPolicy"]),
        ({"disruptionBudget": False, "networkPolicy": {"enabled": True}}, ["NetworkPolicy", "NetworkPolicy"]),
    ],
)
def test_each_is_switched_by_the_description(fields: dict[str, Any], kinds: list[str]) -> None:
    spec = cluster_spec({"image": "i", "ledger": "s3://b", **fields}, "cluster.yaml")
    documents = protections(KubernetesCluster("flights", "data", spec))
    assert [each["kind"] for each in documents] == kinds
    named = [(each["kind"], each["metadata"]["name"]) for each in documents]
    assert set(named) <= set(protection_names("flights"))
    assert len(set(named)) == len(named)
