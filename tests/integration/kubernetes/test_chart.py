"""The Helm chart, rendered by Helm's engine and applied to a real API server. No pod runs here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML

import headrace
from headrace.deployment.kubernetes.cluster_file import cluster_spec
from headrace.deployment.kubernetes.cluster_spec import KubernetesCluster
from headrace.deployment.kubernetes.deployer import Deployer
from headrace.kubernetes.connection import ForbiddenError, open_connection
from headrace.kubernetes.documents import Collection
from support.kubernetes.control.kubernetes import Kubernetes
from support.kubernetes.documents.chart import CHART, ChartError, documents, rendered_chart
from support.kubernetes.pods.coordinator_account import ACCOUNT, require_account
from support.processes.running import wait_until
from support.repository import ROOT

BASE = ROOT / "deploy/k8s/operator"
OPERATOR = {"enabled": True, "image": "you/headrace:1"}
OWN_OF_THE_CHART = {"image", "resources"}
"""Fields of a container that values set."""


def objects(text: str) -> dict[tuple[str, str], dict[str, Any]]:
    """By kind and name."""
    return {(each["kind"], each["metadata"]["name"]): each for each in documents(text)}


def essence(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """What base and chart must agree on: rights, who has them, and how containers run."""
    role = document.get("roleRef", {}).get("name")
    subjects = [(each["kind"], each["name"]) for each in document.get("subjects", ())]
    pod = document.get("spec", {}).get("template", {}).get("spec", {})
    containers = [
        {name: value for name, value in container.items() if name not in OWN_OF_THE_CHART}
        for container in pod.get("containers", ())
    ]
    return {
        "rules": document.get("rules"),
        "role": role,
        "subjects": subjects,
        "containers": containers,
        "account": pod.get("serviceAccountName"),
    }


def test_it_makes_the_account_of_coordinators(kubernetes: Kubernetes, namespace: str, tmp_path: Path) -> None:
    text = rendered_chart(tmp_path, namespace, {})
    assert objects(text).keys() == {(kind, ACCOUNT) for kind in ("ServiceAccount", "Role", "RoleBinding")}
    kubernetes.kubectl("apply", "--filename", "-", given=text)
    require_account(kubernetes, namespace)


def test_it_has_what_the_base_has(kubernetes: Kubernetes, tmp_path: Path) -> None:
    base = objects(kubernetes.kubectl("kustomize", str(BASE)))
    chart = objects(rendered_chart(tmp_path, "data", {"operator": OPERATOR}))
    for (kind, name), document in base.items():
        if kind != "CustomResourceDefinition":
            # a release is of one namespace, and two of them cannot have the same ClusterRole
            own = chart[kind.removeprefix("Cluster"), name]
            assert essence(own) == essence(document), f"{kind} {name}"


def test_definitions_of_base_and_chart_are_the_same_files() -> None:
    both = [{path.name: path.read_text() for path in (part / "crds").glob("*.yaml")} for part in (BASE, CHART)]
    assert both[0] == both[1]


def test_the_account_has_the_name_and_annotations_of_the_values(tmp_path: Path) -> None:
    account = {"name": "flights", "annotations": {"iam.gke.io/gcp-service-account": "f@p.iam.example"}}
    made = objects(rendered_chart(tmp_path, "data", {"coordinator": {"serviceAccount": account}}))
    assert made["ServiceAccount", "flights"]["metadata"]["annotations"] == account["annotations"]
    assert made["RoleBinding", "flights"]["roleRef"]["name"] == "flights"
    none = rendered_chart(tmp_path, "data", {"coordinator": {"serviceAccount": {"create": False}}})
    assert objects(none) == {}


def test_the_operator_watches_the_namespaces_of_the_values(tmp_path: Path) -> None:
    watching = {**OPERATOR, "watchNamespaces": ["data", "reports"]}
    made = documents(rendered_chart(tmp_path, "headrace", {"operator": watching}))
    places = {name: set[str]() for name in ("headrace-operator", ACCOUNT)}
    for each in made:
        if each["kind"] == "Role":
            places[each["metadata"]["name"]].add(each["metadata"]["namespace"])
    # in its own it has an election
    assert places == {"headrace-operator": {"data", "reports", "headrace"}, ACCOUNT: {"data", "reports"}}
    (args,) = (
        each["spec"]["template"]["spec"]["containers"][0]["args"] for each in made if each["kind"] == "Deployment"
    )
    assert args[:5] == ["operator", "--namespace", "data", "--namespace", "reports"]


@pytest.fixture
def restricted(kubernetes: Kubernetes, namespace: str) -> Iterator[str]:
    """A namespace at the restricted Pod Security level."""
    kubernetes.kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
    yield namespace


def test_the_pods_of_the_operator_are_admitted_at_the_restricted_level(
    kubernetes: Kubernetes, restricted: str, tmp_path: Path
) -> None:
    operator = {
        **OPERATOR,
        "replicas": 2,
        "imagePullPolicy": "Never",
        "imagePullSecrets": [{"name": "mine"}],
        "nodeSelector": {"disk": "fast"},
        "tolerations": [{"key": "spot", "operator": "Exists"}],
        "affinity": {"nodeAffinity": {}},
        "env": [{"name": "HEADRACE_LEADER_LEASE", "value": "20s"}],
        "volumes": [{"name": "mine", "emptyDir": {}}],
        "volumeMounts": [{"name": "mine", "mountPath": "/mine"}],
        "podLabels": {"team": "flights"},
        "podAnnotations": {"note": "x"},
        "priorityClassName": "system-cluster-critical",
    }
    text = rendered_chart(tmp_path, restricted, {"operator": operator})
    kubernetes.kubectl("apply", "--filename", "-", given=text)
    path = f"/api/v1/namespaces/{restricted}/pods?labelSelector=app.kubernetes.io/component%3Doperator"
    wait_until(lambda: len(kubernetes.api.get(path)["items"]) == 2, "two pods of the operator")
    spec = kubernetes.api.get(path)["items"][0]["spec"]
    assert spec["serviceAccountName"] == "headrace-operator"
    assert (spec["nodeSelector"], spec["imagePullSecrets"]) == ({"disk": "fast"}, [{"name": "mine"}])
    assert {"key": "spot", "operator": "Exists"} in spec["tolerations"]
    (container,) = spec["containers"]
    assert (container["image"], container["imagePullPolicy"]) == ("you/headrace:1", "Never")
    assert {"name": "HEADRACE_LEADER_LEASE", "value": "20s"} in container["env"]
    assert "/mine" in {each["mountPath"] for each in container["volumeMounts"]}
    assert spec["priorityClassName"] == "system-cluster-critical"
    metadata = kubernetes.api.get(path)["items"][0]["metadata"]
    assert (metadata["labels"]["team"], metadata["annotations"]["note"]) == ("flights", "x")


def test_the_operator_s_rights_are_enough_for_clusters(kubernetes: Kubernetes, namespace: str, tmp_path: Path) -> None:
    without_pods = {"operator": {**OPERATOR, "replicas": 0}}
    kubernetes.kubectl("apply", "--filename", "-", given=rendered_chart(tmp_path, namespace, without_pods))
    token = kubernetes.kubectl("--namespace", namespace, "create", "token", "headrace-operator").strip()
    own = open_connection({}, kubeconfig=kubernetes.kubeconfig_of(token, tmp_path / "operator.kubeconfig"))
    for protected in (True, False):
        document = {
            "image": "i",
            "ledger": "s3://b",
            "disruptionBudget": protected,
            "networkPolicy": {"enabled": protected},
        }
        cluster = KubernetesCluster("flights", namespace, cluster_spec(document, "cluster.yaml"))
        Deployer(own).apply(cluster)
        policies = kubernetes.kubectl("--namespace", namespace, "get", "pdb,netpol", "--output", "name").split()
        policies = [each for each in policies if not each.endswith("/headrace-operator")]
        assert len(policies) == (3 if protected else 0)
    with pytest.raises(ForbiddenError):
        own.create(Collection("v1", "pods", namespace), {"metadata": {"name": "mine"}, "spec": {"containers": []}})
    own.close()


@pytest.mark.parametrize(
    ("values", "said"),
    [
        ({"operators": {}}, "operators"),
        ({"operator": {"enabled": True}}, "image"),
        ({"operator": {**OPERATOR, "replicas": -1}}, "replicas"),
        ({"operator": {**OPERATOR, "watchNamespaces": "data"}}, "watchNamespaces"),
        ({"operator": {**OPERATOR, "imagePullPolicy": "Sometimes"}}, "imagePullPolicy"),
        ({"operator": {**OPERATOR, "imagePullSecrets": ["mine"]}}, "imagePullSecrets"),
        ({"coordinator": {"serviceAccount": {"name": "Not A Name"}}}, "name"),
        ({"coordinator": {"serviceAccount": {"annotations": {"a": 1}}}}, "annotations"),
        ({"coordinator": {"account": {}}}, "account"),
    ],
)
def test_values_that_mean_nothing_are_refused(tmp_path: Path, values: Mapping[str, Any], said: str) -> None:
    with pytest.raises(ChartError, match=said):
        rendered_chart(tmp_path, "data", values)


def test_its_version_is_that_of_the_package() -> None:
    chart = YAML(typ="safe").load((CHART / "Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (headrace.__version__, headrace.__version__)


def test_the_page_names_every_value() -> None:
    page = (ROOT / "docs/kubernetes.md").read_text()
    table = page.partition("| value | default |")[2].partition("\n\n")[0]
    named = re.findall(r"`([\w.]+)`", table)
    values = YAML(typ="safe").load((CHART / "values.yaml").read_text())
    account = [f"coordinator.serviceAccount.{name}" for name in values["coordinator"]["serviceAccount"]]
    for value in (*account, *(f"operator.{name}" for name in values["operator"])):
        assert value in named or f".{value.rpartition('.')[2]}" in named, value
