"""What is applied for a cluster on Kubernetes. Whether a real API server takes it is tested with one."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from headrace.core.errors import UserError
from headrace.deployment.kubernetes.cluster_file import cluster_spec
from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster
from headrace.deployment.kubernetes.manifests import (
    WORKER_DRAIN_SECONDS,
    WORKER_GRACE_SECONDS,
    deployment,
    owned_documents,
    secret,
    worker_template,
)
from headrace.deployment.kubernetes.work import WORK_FOLDER, Work
from headrace.worker.supervision.supervisor import FLUSH_SECONDS, LEAVE_SECONDS


def cluster_of(name: str = "flights", **spec: Any) -> KubernetesCluster:
    document = {"image": "headrace:1", "ledger": "s3://bucket/flights", **spec}
    return KubernetesCluster(name, "data", cluster_spec(document, "cluster.yaml"))


CLUSTER = cluster_of(coordinator={"replicas": 2}, workers={"slots": 2, "max": 8})


def cluster_documents(cluster: KubernetesCluster) -> tuple[dict[str, Any], ...]:
    return (*owned_documents(cluster), deployment(cluster))


def kinds(cluster: KubernetesCluster = CLUSTER) -> list[tuple[str, str]]:
    return [(each["kind"], each["metadata"]["name"]) for each in cluster_documents(cluster)]


def pod_specs(cluster: KubernetesCluster = CLUSTER) -> Iterator[dict[str, Any]]:
    yield deployment(cluster)["spec"]["template"]["spec"]
    yield worker_template(cluster)["spec"]


def test_the_objects_of_a_cluster() -> None:
    assert kinds() == [
        ("ConfigMap", "flights-headrace"),
        ("Service", "flights"),
        ("Service", "flights-control"),
        ("PodDisruptionBudget", "flights"),
        ("Deployment", "flights"),
    ]
    assert {each["metadata"]["namespace"] for each in cluster_documents(CLUSTER)} == {"data"}


def test_a_cluster_of_one_job_has_an_attendant_beside_each_coordinator() -> None:
    work = Work(("--request", f"{WORK_FOLDER}/job.json"), {"job.json": b"{}"})
    template = {"spec": {"containers": [{"name": "attendant", "env": [{"name": "A", "value": "1"}]}]}}
    spec = cluster_of(coordinator={"podTemplate": template}).spec
    own = replace(CLUSTER, spec=spec, work=work)
    assert ("Secret", "flights-work") in kinds(own)
    pod, _ = pod_specs(own)
    coordinator, attendant = pod["containers"]
    assert (coordinator["name"], attendant["name"]) == ("coordinator", "attendant")
    assert "s3://bucket/flights/flights" in coordinator["args"], "one description serves many clusters"
    assert attendant["args"][-2:] == ["--request", f"{WORK_FOLDER}/job.json"]
    assert {"name": "A", "value": "1"} in attendant["env"]
    # the same description of a cluster that runs until it is stopped
    pod, _ = pod_specs(replace(own, work=None))
    assert [each["name"] for each in pod["containers"]] == ["coordinator"]


def test_a_program_of_a_user_runs_without_the_account_of_coordinators() -> None:
    """Its container has no token: another one beside it deletes the cluster at the end."""
    own = replace(CLUSTER, work=Work(("--program", f"{WORK_FOLDER}/app.py"), {"app.py": b""}))
    pod, _ = pod_specs(own)
    assert pod["automountServiceAccountToken"] is False
    (account,) = (each["name"] for each in pod["volumes"] if "projected" in each)
    has_token = {
        each["name"]: any(mount["name"] == account for mount in each["volumeMounts"]) for each in pod["containers"]
    }
    assert has_token == {"coordinator": True, "attendant": False, "closer": True}
    _, attendant, closer = pod["containers"]
    (secret,) = (each for each in attendant["volumeMounts"] if each["name"] == "secret")
    assert secret["subPath"] == "token", "the ledger's key is not there"
    assert "--deployment" not in attendant["args"]
    assert attendant["args"][-2:] == ["--program", f"{WORK_FOLDER}/app.py"]
    assert "--application" in closer["args"]
    # a job has no code of the user there
    pod, _ = pod_specs(replace(CLUSTER, work=Work(("--request", f"{WORK_FOLDER}/job.json"))))
    assert [each["name"] for each in pod["containers"]] == ["coordinator", "attendant"]


def test_storage_of_a_node_is_limited_where_the_description_says_so() -> None:
    spec = CLUSTER.spec
    workers = spec.workers.model_copy(update={"ephemeral_storage": "10Gi"})
    limited = replace(CLUSTER, spec=spec.model_copy(update={"workers": workers}))
    coordinator, worker = pod_specs(limited)
    (resources,) = (each["resources"] for each in worker["containers"])
    assert [resources[part]["ephemeral-storage"] for part in ("requests", "limits")] == ["10Gi", "10Gi"]
    homes = [next(each for each in pod["volumes"] if each["name"] == "home") for pod in (coordinator, worker)]
    assert [each["emptyDir"] for each in homes] == [{}, {"sizeLimit": "10Gi"}]


def test_pods_of_a_kind_are_spread_over_nodes_unless_a_template_says_otherwise() -> None:
    for pod, component in zip(pod_specs(), ("coordinator", "worker"), strict=True):
        (spread,) = pod["topologySpreadConstraints"]
        assert spread["labelSelector"]["matchLabels"] == {
            "headrace.dev/cluster": "flights",
            "app.kubernetes.io/component": component,
        }
        assert spread["whenUnsatisfiable"] == "ScheduleAnyway"


def test_workers_have_part_of_their_grace_time_to_hand_their_jobs_over() -> None:
    def drain(cluster: KubernetesCluster) -> list[str]:
        spec = worker_template(cluster)["spec"]
        return [each["value"] for each in spec["containers"][0]["env"] if each["name"] == "HEADRACE_DRAIN"]

    assert drain(CLUSTER) == ["45s"]
    assert worker_template(CLUSTER)["spec"]["terminationGracePeriodSeconds"] == 60
    assert drain(cluster_of(env={"HEADRACE_DRAIN": "5s"})) == ["5s"]
    # jobs that cannot be moved, and slots that hang, end within the grace time, too
    assert WORKER_DRAIN_SECONDS + LEAVE_SECONDS + FLUSH_SECONDS < WORKER_GRACE_SECONDS


def test_no_secret_is_outside_of_the_secret() -> None:
    document = secret(CLUSTER, token="the token", key="the key")
    assert document["stringData"] == {"token": "the token\n", "key": "the key\n"}
    for each in cluster_documents(CLUSTER):
        assert "secretKeyRef" not in json.dumps(each), "environment variables are shown by many tools"


def test_workers_do_not_get_the_key_of_the_ledger_nor_an_account() -> None:
    spec = worker_template(CLUSTER)["spec"]
    mounted = {
        each["secret"]["secretName"]: each["secret"].get("items") for each in spec["volumes"] if "secret" in each
    }
    assert mounted.keys() == {"flights-headrace", "flights-tls"}
    assert [each["key"] for each in mounted["flights-headrace"]] == ["token"]
    assert spec["automountServiceAccountToken"] is False
    assert "serviceAccountName" not in spec


def test_containers_pass_the_restricted_level() -> None:
    for spec in pod_specs():
        assert spec["securityContext"]["runAsNonRoot"] is True
        assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
        for container in spec["containers"]:
            context = container["securityContext"]
            assert context["allowPrivilegeEscalation"] is False
            assert context["readOnlyRootFilesystem"] is True
            assert context["capabilities"] == {"drop": ["ALL"]}


def test_memory_is_limited_and_cpu_is_not() -> None:
    (container,) = worker_template(CLUSTER)["spec"]["containers"]
    assert container["resources"] == {
        "requests": {"cpu": "1", "memory": "2Gi"},
        "limits": {"memory": "2Gi"},
    }


def test_a_users_labels_cannot_hide_coordinators_from_their_services() -> None:
    template = {"metadata": {"labels": {"team": "x", "headrace.dev/cluster": "other"}}}
    cluster = cluster_of(coordinator={"podTemplate": template})
    document = deployment(cluster)
    labels = document["spec"]["template"]["metadata"]["labels"]
    assert labels["team"] == "x"
    assert document["spec"]["selector"]["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("name", ["", "Flights", "1flights", "flights-", "a" * 41, "a.b"])
def test_a_name_that_kubernetes_would_refuse(name: str) -> None:
    with pytest.raises(UserError, match="no name of a cluster"):
        cluster_of(name)


def test_a_cluster_may_do_without_tls() -> None:
    for pod in pod_specs(cluster_of(tls=False)):
        assert "TLS" not in json.dumps(pod)
        assert "tls" not in json.dumps(pod)
